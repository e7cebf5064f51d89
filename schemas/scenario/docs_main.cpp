#include <cstdio>
#include <fstream>
#include <schemas/scenario/docs.hpp>

// ftrt-scenario-docs [FILE]: writes docs/scenario.md, or prints it.
int main(int argc, char** argv) {
  const auto text = ftrt::grammar::reference();
  if (argc == 1) return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1;
  std::ofstream file{argv[1], std::ios::binary};
  file << text;
  file.close();
  if (file) return 0;
  std::fprintf(stderr, "ftrt-scenario-docs: cannot write %s\n", argv[1]);
  return 1;
}
