#include "common/process/process_state.h"

#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace strata {

namespace {

// Of the state and what follows it.
constexpr int kFieldsBeforeCpu = 11;

// Returns what /proc says of the process after its number and name, from its state on; empty where
// it says nothing.
std::string StateAndMore(pid_t pid) {
  std::ifstream in(absl::StrCat("/proc/", pid, "/stat"));
  std::string line;
  if (!std::getline(in, line)) return "";
  // "PID (NAME) STATE ...", and the name may hold anything.
  const size_t name_end = line.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= line.size() ? "?"
                                                                      : line.substr(name_end + 2);
}

}  // namespace

std::string ProcessState(pid_t pid) {
  const std::string stat = StateAndMore(pid);
  // Where /proc is mounted with hidepid, nobody but root sees an undumpable process there.
  if (stat.empty()) return kill(pid, 0) == 0 ? kProcessRunning : kProcessGone;
  switch (stat[0]) {
    case 'T':
      return kProcessStopped;
    case 't':
      return kProcessDebugged;
    case 'D':
      return "waiting for the disk";
    case 'Z':
    case 'X':
      return kProcessGone;
    default:
      return kProcessRunning;
  }
}

uint64_t ProcessCpuMs(pid_t pid) {
  std::istringstream in(StateAndMore(pid));
  std::string skipped;
  for (int i = 0; i < kFieldsBeforeCpu; ++i) in >> skipped;
  uint64_t user = 0, system = 0;
  if (!(in >> user >> system)) return 0;
  return (user + system) * 1000 / sysconf(_SC_CLK_TCK);
}

}  // namespace strata
