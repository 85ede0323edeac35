#include "measure/train/machine.h"

#include <stdlib.h>

#include <fstream>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "common/cores.h"

namespace strata::bench {

std::string ProcessorIn(const std::string& cpuinfo) {
  for (absl::string_view line : absl::StrSplit(cpuinfo, '\n')) {
    if (!absl::StartsWith(line, "model name")) continue;
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (parts.size() == 2) return std::string(absl::StripAsciiWhitespace(parts[1]));
  }
  return "";
}

Machine ThisMachine() {
  Machine machine;
  machine.cores = UsableCores();
  std::ifstream cpuinfo("/proc/cpuinfo");
  machine.processor = ProcessorIn({std::istreambuf_iterator<char>(cpuinfo), {}});
  if (machine.processor.empty()) machine.processor = "unknown processor";
  if (getloadavg(&machine.load_average, 1) != 1) machine.load_average = 0;
  return machine;
}

}  // namespace strata::bench
