// Prints what programs that were built from a source tree say on the control plane.
//
// usage: list ROOT proto/job.proto proto/record.proto ...

#include <cstdio>
#include <string>
#include <vector>

#include "proto/compatibility/message_list.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: list ROOT FILE.proto...\n");
    return 2;
  }
  const auto lines =
      strata::proto::ListMessages(argv[1], std::vector<std::string>(argv + 2, argv + argc));
  if (!lines.ok()) {
    std::fprintf(stderr, "list: error: %s\n", std::string(lines.status().message()).c_str());
    return 2;
  }
  for (const std::string& line : *lines) std::printf("%s\n", line.c_str());
  return 0;
}
