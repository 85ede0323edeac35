#include "tests/e2e/testing/leftovers.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"

namespace strata::tests {

namespace {

struct Found {
  int pid;
  std::string command;
};

std::string CommandLine(int pid) {
  std::ifstream in(absl::StrCat("/proc/", pid, "/cmdline"));
  std::stringstream text;
  text << in.rdbuf();
  std::string line = text.str();
  for (char& c : line) c = c == '\0' ? ' ' : c;
  return line;
}

// Returns the process's open files: paths, "socket:[INODE]", ...
std::vector<std::string> OpenFiles(int pid) {
  std::vector<std::string> targets;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/fd"), error)) {
    targets.push_back(std::filesystem::read_symlink(entry.path(), error).string());
  }
  return targets;
}

bool HasFileUnder(int pid, const std::string& dir) {
  for (const std::string& target : OpenFiles(pid)) {
    if (absl::StartsWith(target, dir)) return true;
  }
  return false;
}

// Name by "socket:[INODE]"; abstract names begin with '@'.
std::map<std::string, std::string> NamedSockets() {
  std::map<std::string, std::string> sockets;
  std::ifstream in("/proc/net/unix");
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (fields.size() >= 8) sockets[absl::StrCat("socket:[", fields[6], "]")] = fields[7];
  }
  return sockets;
}

std::vector<Found> FindProcesses() {
  std::vector<Found> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    int pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid) || pid == getpid()) continue;
    std::string command = CommandLine(pid);
    if (!command.empty() && HasFileUnder(pid, TestDir())) found.push_back({pid, command});
  }
  return found;
}

}  // namespace

std::vector<std::string> Processes() {
  std::vector<std::string> lines;
  for (const Found& found : FindProcesses()) {
    lines.push_back(absl::StrCat(found.pid, ": ", found.command));
  }
  return lines;
}

std::vector<int> ListProcesses(const std::string& subcommand) {
  std::vector<int> pids;
  for (const Found& found : FindProcesses()) {
    if (absl::StartsWith(found.command, absl::StrCat("strata ", subcommand, " "))) {
      pids.push_back(found.pid);
    }
  }
  return pids;
}

std::vector<std::string> Traces() {
  std::map<std::string, std::string> sockets = NamedSockets();
  std::set<std::string> traces;
  for (const Found& found : FindProcesses()) {
    for (const std::string& target : OpenFiles(found.pid)) {
      if (absl::StartsWith(target, "/dev/shm/")) traces.insert(target);
      if (sockets.contains(target)) traces.insert(sockets[target]);
    }
    for (absl::string_view argument : absl::StrSplit(found.command, ' ')) {
      if (absl::StartsWith(argument, "/tmp/strata-local-")) traces.insert(std::string(argument));
    }
  }
  return {traces.begin(), traces.end()};
}

std::vector<std::string> Remaining(const std::vector<std::string>& traces) {
  std::set<std::string> sockets;
  for (const auto& [inode, name] : NamedSockets()) sockets.insert(name);
  std::vector<std::string> remaining;
  for (const std::string& trace : traces) {
    if (sockets.contains(trace) || std::filesystem::exists(trace)) remaining.push_back(trace);
  }
  return remaining;
}

std::vector<std::string> RemainingAtLast(const std::vector<std::string>& traces, int sockets) {
  std::vector<std::string> remaining;
  (void)WaitUntil(
      [&] {
        remaining = Remaining(traces);
        return std::count_if(remaining.begin(), remaining.end(), [](const std::string& trace) {
                 return absl::StartsWith(trace, "@");
               }) <= sockets;
      },
      absl::Seconds(20));
  return remaining;
}

std::vector<int> ListeningPorts(int pid) {
  const std::vector<std::string> open = OpenFiles(pid);
  std::vector<int> ports;
  std::ifstream in("/proc/net/tcp");
  for (std::string line; std::getline(in, line);) {
    // "0: ADDRESS:PORT REMOTE STATE ... INODE", in hexadecimal but for the last
    const std::vector<std::string> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
    constexpr char kListening[] = "0A";
    if (fields.size() < 10 || fields[3] != kListening) continue;
    const std::string socket = absl::StrCat("socket:[", fields[9], "]");
    if (std::find(open.begin(), open.end(), socket) == open.end()) continue;
    ports.push_back(std::stoi(fields[1].substr(fields[1].find(':') + 1), nullptr, 16));
  }
  return ports;
}

void KillProcess(const std::string& subcommand, int signal) {
  const std::vector<int> processes = ListProcesses(subcommand);
  ASSERT_FALSE(processes.empty()) << subcommand;
  kill(processes.back(), signal);
}

void ExpectOneModel(const std::string& run_dir, uint32_t nodes, uint64_t steps,
                    const std::set<uint32_t>& gone) {
  std::map<std::string, std::string> hashes;
  for (uint32_t node = 0; node < nodes; ++node) {
    const std::vector<std::string> lines = Hashes(run_dir, static_cast<int>(node));
    const bool is_left = !gone.contains(node);
    if (is_left) {
      EXPECT_EQ(lines.size(), steps + 1) << "node " << node;
    }
    for (size_t i = 0; i < lines.size(); ++i) {
      if (!is_left && i + 1 == lines.size()) break;
      const std::vector<std::string> parts = absl::StrSplit(lines[i], ' ');
      ASSERT_EQ(parts.size(), 2) << lines[i];
      const auto [known, is_new] = hashes.try_emplace(parts[0], parts[1]);
      EXPECT_EQ(known->second, parts[1]) << "node " << node << ", step " << parts[0];
    }
  }
  EXPECT_EQ(hashes.size(), steps + 1);
  EXPECT_TRUE(hashes.contains("final"));
}

}  // namespace strata::tests
