// Prints what programs say on the wire that were built from the .proto files of standard input.
//
// usage: protoc --include_imports --descriptor_set_out=/dev/stdout FILE.proto... | list

#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>

#include "tests/e2e/message_list.h"

int main() {
  const std::string set(std::istreambuf_iterator<char>(std::cin), {});
  const auto lines = strata::proto::ListMessages(set);
  if (!lines.ok()) {
    std::fprintf(stderr, "list: error: %s\n", std::string(lines.status().message()).c_str());
    return 2;
  }
  for (const std::string& line : *lines) std::printf("%s\n", line.c_str());
  return 0;
}
