#include "tests/load/load_cluster.h"

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace strata::tests {
namespace {

constexpr absl::Duration kReadyDeadline = absl::Seconds(60);
constexpr absl::Duration kLook = absl::Milliseconds(20);

// The line with " ready " in a file; empty: none yet.
std::string ReadyLineIn(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    if (absl::StrContains(line, " ready ") && !in.eof()) return line;
  }
  return "";
}

}  // namespace

absl::Status LoadCluster::StartMember(const std::string& name, std::vector<std::string> args,
                                      std::string* ready_line) {
  const std::string log = absl::StrCat(options_.dir, "/", name, ".log");
  std::filesystem::remove(log);  // of an earlier run, whose daemons were elsewhere
  args.insert(args.begin(), "strata");
  auto process = Process::Start({.args = args,
                                 .executable = options_.strata,
                                 .log_path = log,
                                 .environment = {"STRATA_DUMPABLE=1"}});  // for Measure
  if (!process.ok()) return process.status();
  members_.push_back({.name = name, .process = *std::move(process)});
  const absl::Time deadline = absl::Now() + kReadyDeadline;
  while (absl::Now() < deadline) {
    *ready_line = ReadyLineIn(log);
    if (!ready_line->empty()) return absl::OkStatus();
    if (members_.back().process->TryReap().has_value()) {
      return absl::FailedPreconditionError(absl::StrCat(name, " has ended, see ", log));
    }
    absl::SleepFor(kLook);
  }
  return absl::DeadlineExceededError(absl::StrCat(name, " is not ready, see ", log));
}

absl::Status LoadCluster::Start() {
  std::filesystem::remove_all(absl::StrCat(options_.dir, "/state"));
  keys_.emplace(absl::StrCat(options_.dir, "/keys"));
  std::string line;
  absl::Status status = StartMember("coordinator",
                                    {"coordinator", "--listen", "127.0.0.1:0", "--keys",
                                     keys_->PathOf(keys::Role::kCoordinator, "coordinator"),
                                     "--state", absl::StrCat(options_.dir, "/state")},
                                    &line);
  if (!status.ok()) return status;
  const size_t begin = line.find("address=") + 8;
  coordinator_ = line.substr(begin, line.find(' ', begin) - begin);
  for (uint32_t i = 0; i < options_.servers && status.ok(); ++i) {
    const std::string name = absl::StrCat("s", i);
    status = StartMember(
        name,
        {"server", "--coordinator", coordinator_, "--name", name, "--keys",
         keys_->PathOf(keys::Role::kServer, name), "--shards", absl::StrCat(options_.shards)},
        &line);
  }
  return status;
}

void LoadCluster::Measure() {
  for (Member& member : members_) {
    const ProcessUse now = MeasureUse(member.process->pid());
    member.most.descriptors = std::max(member.most.descriptors, now.descriptors);
    member.most.descriptors_max = std::max(member.most.descriptors_max, now.descriptors_max);
    member.most.resident_bytes = std::max(member.most.resident_bytes, now.resident_bytes);
    member.most.threads = std::max(member.most.threads, now.threads);
  }
}

absl::Status LoadCluster::Stop() {
  absl::Status result;
  while (!members_.empty()) {
    Member& last = members_.back();
    last.process->Signal(SIGTERM);
    const ExitStatus status = last.process->Reap();
    if (!status.ok())
      result = absl::InternalError(absl::StrCat(last.name, ": ", status.ToString()));
    members_.pop_back();
  }
  return result;
}

}  // namespace strata::tests
