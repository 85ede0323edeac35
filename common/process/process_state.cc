#include "common/process/process_state.h"

#include <signal.h>

#include <fstream>

#include "absl/strings/str_cat.h"

namespace strata {

std::string ProcessState(pid_t pid) {
  std::ifstream in(absl::StrCat("/proc/", pid, "/stat"));
  std::string line;
  // Where /proc is mounted with hidepid, nobody but root sees an undumpable process there.
  if (!std::getline(in, line)) return kill(pid, 0) == 0 ? kProcessRunning : "gone";
  // "PID (NAME) STATE ...", and the name may hold anything.
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= line.size()) return kProcessRunning;
  switch (line[name_end + 2]) {
    case 'T':
      return "stopped by a signal";
    case 't':
      return "stopped by a debugger";
    case 'D':
      return "waiting for the disk";
    case 'Z':
    case 'X':
      return "gone";
    default:
      return kProcessRunning;
  }
}

}  // namespace strata
