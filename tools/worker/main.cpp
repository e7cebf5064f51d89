#include <ftrt/worker.hpp>

int main(int argc, char** argv) {
  return ftrt::worker_main(argc, argv);
}
