#include <tests/tools/layer_rules.hpp>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

namespace ftrt::testing {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_lines = 350;
constexpr std::array rooms{"actors", "runtime", "schemas", "storage",
                           "tools",  "include", "tests",   "examples"};
constexpr std::array source_suffixes{".cpp", ".hpp", ".h", ".inc", ".cu", ".cuh"};

struct rule {
  std::string_view law;
  std::vector<std::string_view> folders;    // whose files it binds
  std::vector<std::string_view> forbidden;  // includes that begin so
  std::vector<std::string_view> except{};   // files that are free, by how their path begins
};

const std::vector<rule>& include_rules() {
  using list = std::vector<std::string_view>;
  static const list control_only{"caf/"};
  // The two headers of the face that a model's author includes carry LibTorch with them.
  static const list torch{"torch/", "ATen/", "c10/", "ftrt/model.hpp", "ftrt/worker"};
  static const list torch_faces{"include/ftrt/model.hpp", "include/ftrt/worker"};
  static const std::vector<rule> rules{
      {"only actors/ includes CAF",
       {"runtime/", "storage/", "schemas/", "include/", "tools/ftrt/", "tools/worker/"},
       control_only},
      {"only the worker half includes LibTorch",
       {"actors/", "storage/", "schemas/", "include/", "tools/ftrt/"},
       torch,
       torch_faces},
      {"actors/ and runtime/ meet in schemas/ and storage/ only",
       {"actors/"},
       {"runtime/", "tools/", "tests/"}},
      {"actors/ and runtime/ meet in schemas/ and storage/ only",
       {"runtime/"},
       {"actors/", "tools/", "tests/"}},
      {"storage/ stands below the two halves",
       {"storage/"},
       {"actors/", "runtime/", "tools/", "tests/"}},
      {"schemas/ stands below everything",
       {"schemas/"},
       {"actors/", "runtime/", "storage/", "tools/", "tests/"}},
      {"an installed header includes no header that is not installed",
       {"include/"},
       {"actors/", "runtime/", "storage/", "schemas/", "tools/", "tests/"}},
      {"an example stands outside of the house",
       {"examples/"},
       {"actors/", "runtime/", "storage/", "schemas/", "tools/", "tests/"}},
      {"the command is written on the installed face alone",
       {"tools/ftrt/"},
       {"actors/", "runtime/", "storage/", "schemas/", "tools/worker/", "tools/bench/", "tests/"}},
  };
  return rules;
}

bool begins_with_any(std::string_view text, const std::vector<std::string_view>& starts) {
  return std::ranges::any_of(starts, [text](auto start) { return text.starts_with(start); });
}

bool is_header(const fs::path& file) {
  return file.extension() != ".cpp" && file.extension() != ".cu";
}

std::string_view trimmed(std::string_view text) {
  const auto from = text.find_first_not_of(" \t");
  return from == std::string_view::npos ? std::string_view{} : text.substr(from);
}

// What `line` includes; a path relative to its own file becomes one relative to the tree.
std::optional<std::string> included_by(std::string_view line, const fs::path& tree,
                                       const fs::path& file) {
  line = trimmed(line);
  if (!line.starts_with('#')) return std::nullopt;
  line = trimmed(line.substr(1));
  if (!line.starts_with("include")) return std::nullopt;
  line = trimmed(line.substr(std::string_view{"include"}.size()));
  if (line.empty() || (line[0] != '<' && line[0] != '"')) return std::nullopt;
  const bool quoted = line[0] == '"';
  const auto end = line.find(quoted ? '"' : '>', 1);
  if (end == std::string_view::npos) return std::nullopt;
  const fs::path path{line.substr(1, end - 1)};
  const auto beside = (file.parent_path() / path).lexically_normal();
  if (quoted && fs::exists(tree / beside)) return beside.generic_string();
  return path.lexically_normal().generic_string();
}

template <class Visit>
std::size_t for_each_line(const fs::path& file, Visit visit) {
  std::ifstream in{file};
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) visit(++number, line);
  return number;
}

void check_one_include(const std::string& file, std::size_t line, const std::string& include,
                       std::vector<violation>& found) {
  for (const auto& r : include_rules()) {
    if (!begins_with_any(file, r.folders) || begins_with_any(file, r.except)) continue;
    if (begins_with_any(include, r.forbidden)) {
      found.push_back({file, line, std::string{r.law} + ": <" + include + ">"});
    }
  }
  if (is_header(file) && (include == "torch/torch.h" || include == "caf/all.hpp")) {
    found.push_back({file, line, "no header includes everything: <" + include + ">"});
  }
}

}  // namespace

std::vector<fs::path> sources_of(const fs::path& tree) {
  std::vector<fs::path> found;
  for (const auto* room : rooms) {
    if (!fs::is_directory(tree / room)) continue;
    for (const auto& entry : fs::recursive_directory_iterator{tree / room}) {
      if (!entry.is_regular_file()) continue;
      const auto suffix = entry.path().extension();
      if (std::ranges::find(source_suffixes, suffix) == source_suffixes.end()) continue;
      found.push_back(entry.path().lexically_relative(tree));
    }
  }
  std::ranges::sort(found);
  return found;
}

std::vector<violation> check_includes(const fs::path& tree) {
  std::vector<violation> found;
  for (const auto& file : sources_of(tree)) {
    for_each_line(tree / file, [&](std::size_t number, std::string_view line) {
      const auto include = included_by(line, tree, file);
      if (include) check_one_include(file.generic_string(), number, *include, found);
    });
  }
  return found;
}

std::vector<violation> check_sizes(const fs::path& tree) {
  std::vector<violation> found;
  for (const auto& file : sources_of(tree)) {
    const auto lines = for_each_line(tree / file, [](std::size_t, std::string_view) {});
    if (lines <= max_lines) continue;
    found.push_back({file.generic_string(), lines,
                     std::to_string(lines) + " lines, expected at most " +
                         std::to_string(max_lines) + ": split it"});
  }
  return found;
}

std::vector<violation> check_readmes(const fs::path& tree) {
  std::set<fs::path> folders;
  for (const auto& file : sources_of(tree)) {
    const bool is_test = *file.begin() == "tests";
    folders.insert(is_test ? fs::path{"tests"} : file.parent_path());
  }
  std::vector<violation> found;
  for (const auto& folder : folders) {
    if (fs::exists(tree / folder / "README.md")) continue;
    found.push_back({folder.generic_string(), 0, "a folder with sources and no README.md"});
  }
  return found;
}

std::vector<std::string> needed_libraries(std::string_view readelf_output) {
  std::vector<std::string> needed;
  std::istringstream in{std::string{readelf_output}};
  for (std::string line; std::getline(in, line);) {
    const auto open = line.find('['), close = line.find(']');
    if (line.find("(NEEDED)") == std::string::npos || open > close) continue;
    needed.push_back(line.substr(open + 1, close - open - 1));
  }
  return needed;
}

std::vector<std::string> libtorch_among(const std::vector<std::string>& needed) {
  std::vector<std::string> found;
  std::ranges::copy_if(needed, std::back_inserter(found), [](const std::string& name) {
    return name.starts_with("libtorch") || name.starts_with("libc10");
  });
  return found;
}

}  // namespace ftrt::testing
