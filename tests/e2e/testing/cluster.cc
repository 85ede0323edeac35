#include "tests/e2e/testing/cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"

namespace strata::tests {
namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// Reads up to the end of the first line, the other side's close or the deadline.
std::string ReadLine(int fd, absl::Duration deadline) {
  std::string text;
  absl::Time end = absl::Now() + deadline;
  while (absl::Now() < end && text.find('\n') == std::string::npos) {
    pollfd ready = {fd, POLLIN, 0};
    if (poll(&ready, 1, 100) <= 0) continue;
    char buffer[512];
    ssize_t got = read(fd, buffer, sizeof(buffer));
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

// `strata ARGS`, run by a launcher if there is one.
Process::Spec SpecOf(const std::vector<std::string>& args,
                     const std::vector<std::string>& launcher) {
  Process::Spec spec;
  spec.executable = launcher.empty() ? StrataBinary() : launcher[0];
  spec.args = launcher;
  spec.args.push_back(launcher.empty() ? "strata" : StrataBinary());
  spec.args.insert(spec.args.end(), args.begin(), args.end());
  // Tests inspect processes' open files; only root may do that with daemons.
  if (geteuid() != 0) spec.environment = {"STRATA_DUMPABLE=1"};
  return spec;
}

}  // namespace

std::string StrataBinary() { return std::filesystem::absolute("cli/strata").string(); }

std::string TestDir() {
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  std::string dir = absl::StrCat(testing::TempDir(), info->test_suite_name(), "-", info->name());
  for (char& c : dir) c = c == ' ' ? '_' : c;
  std::filesystem::create_directories(dir);
  return std::filesystem::absolute(dir).lexically_normal().string();
}

std::string ValueIn(const std::string& line, const std::string& key) {
  size_t begin = line.find(absl::StrCat(" ", key, "="));
  if (begin == std::string::npos) return "";
  begin += key.size() + 2;
  return line.substr(begin, line.find_first_of(" \n", begin) - begin);
}

absl::StatusOr<Daemon> StartDaemon(const std::string& title, const std::vector<std::string>& args,
                                   const std::vector<std::string>& launcher) {
  Daemon daemon;
  daemon.title = title;
  daemon.log_path = absl::StrCat(TestDir(), "/", title, ".log");
  int out[2];
  if (pipe2(out, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  daemon.out = UniqueFd(out[0]);
  UniqueFd write_end(out[1]);
  Process::Spec spec = SpecOf(args, launcher);
  spec.log_path = daemon.log_path;
  spec.stdout_fd = write_end.get();
  auto process = Process::Start(spec);
  if (!process.ok()) return process.status();
  daemon.process = std::move(*process);
  write_end.Reset();
  daemon.ready_line = ReadLine(daemon.out.get(), kDeadline);
  if (daemon.ready_line.find(" ready ") == std::string::npos) {
    return absl::FailedPreconditionError(
        absl::StrCat(title, ": ", daemon.ready_line, ReadAll(daemon.log_path)));
  }
  return daemon;
}

Command StartStrata(const std::vector<std::string>& args,
                    const std::vector<std::string>& launcher) {
  static int count = 0;
  Command command;
  command.base = absl::StrCat(TestDir(), "/command-", count++);
  std::string path = command.base + ".out";
  UniqueFd out(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  Process::Spec spec = SpecOf(args, launcher);
  spec.log_path = command.base + ".err";
  spec.stdout_fd = out.get();
  auto process = Process::Start(spec);
  EXPECT_TRUE(process.ok()) << process.status();
  if (process.ok()) command.process = std::move(*process);
  return command;
}

CommandResult Finish(Command command, absl::Duration deadline) {
  CommandResult result;
  if (command.process == nullptr) return result;
  bool ended = WaitUntil([&] { return command.process->TryReap().has_value(); }, deadline);
  result.out = ReadAll(command.base + ".out");
  result.err = ReadAll(command.base + ".err");
  EXPECT_TRUE(ended) << "not ended after " << deadline << ": " << result.out << result.err;
  if (!ended) command.process->Signal(SIGKILL);
  result.status = command.process->Reap();
  return result;
}

CommandResult RunStrata(const std::vector<std::string>& args, absl::Duration deadline,
                        const std::vector<std::string>& launcher) {
  return Finish(StartStrata(args, launcher), deadline);
}

bool WaitUntil(const std::function<bool()>& done, absl::Duration deadline) {
  absl::Time end = absl::Now() + deadline;
  while (!done()) {
    if (absl::Now() > end) return false;
    poll(nullptr, 0, 20);
  }
  return true;
}

std::vector<std::string> Cluster::Asking(std::vector<std::string> words) const {
  words.insert(words.end(), {"--coordinator", address_});
  if (options_.insecure) words.push_back("--insecure");
  return words;
}

std::vector<std::string> Cluster::KeyArgs(keys::Role role, const std::string& name) {
  if (options_.insecure) return {"--insecure"};
  if (!keys_) keys_.emplace(TestDir() + "/keys");
  return {"--keys", keys_->PathOf(role, name)};
}

control::Credentials Cluster::UserCredentials() {
  if (options_.insecure) return control::Credentials::Insecure();
  const std::string path = KeyArgs(keys::Role::kUser, "tester")[1];
  setenv("STRATA_KEYS", path.c_str(), /*overwrite=*/1);  // for commands
  return control::Credentials::File(path);
}

std::string Cluster::runs_dir() const { return TestDir() + "/runs"; }

absl::Status Cluster::StartCoordinator() {
  std::vector<std::string> args = {"coordinator", "--listen",
                                   address_.empty() ? "127.0.0.1:0" : address_, "--state",
                                   TestDir() + "/state"};
  for (std::string& arg : KeyArgs(keys::Role::kCoordinator, "coordinator")) {
    args.push_back(std::move(arg));
  }
  args.insert(args.end(), options_.coordinator_args.begin(), options_.coordinator_args.end());
  auto started = StartDaemon("coordinator", args);
  if (!started.ok()) return started.status();
  coordinator_ = std::move(*started);
  address_ = ValueIn(coordinator_.ready_line, "address");
  return absl::OkStatus();
}

absl::StatusOr<Daemon> Cluster::StartMember(const std::string& role, const std::string& name,
                                            std::vector<std::string> args, int i) {
  args.insert(args.begin(),
              {role, "--coordinator", way_.empty() ? address_ : way_, "--name", name});
  for (std::string& arg : KeyArgs(*keys::ParseRole(role), name)) args.push_back(std::move(arg));
  args.insert(args.end(), options_.daemon_args.begin(), options_.daemon_args.end());
  const auto& own = role == "server" ? options_.server_args : options_.worker_args;
  for (const std::string& arg : own) {
    args.push_back(absl::StrReplaceAll(arg, {{"{i}", absl::StrCat(i)}}));
  }
  return StartDaemon(absl::StrCat(role, " ", name), args);
}

absl::Status Cluster::StartServer(int i) {
  auto started =
      StartMember("server", absl::StrCat("s", i), {"--shards", absl::StrCat(options_.shards)}, i);
  if (!started.ok()) return started.status();
  if (static_cast<size_t>(i) >= servers_.size()) servers_.resize(i + 1);
  servers_[i] = std::move(*started);
  return absl::OkStatus();
}

absl::Status Cluster::StartWorker(int i) {
  auto started = StartMember("worker", absl::StrCat("w", i),
                             {"--slots", absl::StrCat(options_.slots), "--runs", runs_dir()}, i);
  if (!started.ok()) return started.status();
  if (static_cast<size_t>(i) >= workers_.size()) workers_.resize(i + 1);
  workers_[i] = std::move(*started);
  return absl::OkStatus();
}

absl::Status Cluster::Start() {
  absl::Status status = coordinator_.process ? absl::OkStatus() : StartCoordinator();
  const int started = static_cast<int>(servers_.size());
  for (int i = started; i < options_.servers && status.ok(); ++i) status = StartServer(i);
  for (int i = 0; i < options_.nodes && status.ok(); ++i) status = StartWorker(i);
  if (!status.ok()) return status;
  control::CoordinatorClient::Options client;
  client.coordinator = address_;
  client.credentials = UserCredentials();
  client.deadline = absl::Seconds(30);
  client_ = control::CoordinatorClient::Create(client);
  return absl::OkStatus();
}

proto::JobStatus Cluster::Status(JobId job) {
  auto status = client_->GetJob(job);
  EXPECT_TRUE(status.ok()) << status.status();
  return status.ok() ? *status : proto::JobStatus();
}

proto::JobStatus Cluster::WaitFor(JobId job,
                                  const std::function<bool(const proto::JobStatus&)>& done,
                                  absl::Duration deadline) {
  proto::JobStatus status;
  bool in_time = WaitUntil(
      [&] {
        status = Status(job);
        return done(status);
      },
      deadline);
  EXPECT_TRUE(in_time) << "still after " << deadline << ": " << status.ShortDebugString();
  return status;
}

proto::JobStatus Cluster::WaitForEnd(JobId job, absl::Duration deadline) {
  return WaitFor(
      job, [](const proto::JobStatus& status) { return control::HasEnded(status.state()); },
      deadline);
}

proto::JobStatus Cluster::WaitForStep(JobId job, uint64_t step) {
  return WaitFor(job, [step](const proto::JobStatus& status) {
    return status.progress().step() >= step || control::HasEnded(status.state());
  });
}

proto::JobStatus Cluster::RunToEnd(const proto::Job& job, absl::Duration deadline) {
  auto id = Submit(job);
  EXPECT_TRUE(id.ok()) << id.status();
  if (!id.ok()) return proto::JobStatus();
  proto::JobStatus status = WaitForEnd(*id, deadline);
  EXPECT_EQ(status.state(), proto::FINISHED) << status.reason();
  return status;
}

std::string Cluster::RunToFailure(const proto::Job& job) {
  auto id = Submit(job);
  EXPECT_TRUE(id.ok()) << id.status();
  if (!id.ok()) return "";
  const proto::JobStatus status = WaitForEnd(*id);
  EXPECT_EQ(status.state(), proto::FAILED);
  return status.reason();
}

void Cluster::StopAll() {
  auto stop = [](Daemon& daemon) {
    if (daemon.process == nullptr) return;
    daemon.process->Signal(SIGTERM);
    EXPECT_TRUE(WaitUntil([&] { return daemon.process->TryReap().has_value(); }, absl::Seconds(30)))
        << daemon.title << " does not stop";
    EXPECT_EQ(daemon.process->TryReap().value_or(ExitStatus{255, 0}).ToString(),
              "exited with status 0")
        << daemon.title << ": " << ReadAll(daemon.log_path);
  };
  for (Daemon& worker : workers_) stop(worker);
  for (Daemon& server : servers_) stop(server);
  stop(coordinator_);
}

}  // namespace strata::tests
