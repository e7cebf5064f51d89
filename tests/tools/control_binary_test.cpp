#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <tests/support/command.hpp>
#include <tests/support/environment.hpp>
#include <tests/tools/layer_rules.hpp>

namespace ftrt::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// What the program needs, straight from its dynamic section; empty where readelf cannot say.
std::vector<std::string> libraries_of(const fs::path& program) {
  const auto said = test::run_command("readelf -d " + test::quoted(program));
  return said.exit_code == 0 ? needed_libraries(said.out) : std::vector<std::string>{};
}

TEST(control_binary, the_command_needs_no_libtorch) {
  const auto command = test::programs() / "ftrt";
  ASSERT_TRUE(fs::exists(command)) << command << " is missing: build the target `ftrt`";
  const auto needed = libraries_of(command);
  ASSERT_THAT(needed, Not(IsEmpty())) << "readelf -d says nothing of " << command;
  EXPECT_THAT(libtorch_among(needed), IsEmpty());
}

TEST(control_binary, the_check_reads_real_programs) {
  const auto self = fs::read_symlink("/proc/self/exe");
  EXPECT_THAT(libraries_of(self), Contains(StartsWith("libc.so")));
  EXPECT_THAT(libraries_of("/nowhere/ftrt"), IsEmpty());
}

TEST(control_binary, the_check_finds_libtorch) {
  const auto needed = needed_libraries(
      " 0x0000000000000001 (NEEDED)             Shared library: [libtorch_cpu.so]\n"
      " 0x0000000000000001 (NEEDED)             Shared library: [libc10.so]\n"
      " 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]\n"
      " 0x000000000000001d (RUNPATH)            Library runpath: [/x/torch/lib]\n");
  EXPECT_THAT(needed, ElementsAre("libtorch_cpu.so", "libc10.so", "libc.so.6"));
  EXPECT_THAT(libtorch_among(needed), ElementsAre("libtorch_cpu.so", "libc10.so"));
}

}  // namespace
}  // namespace ftrt::testing
