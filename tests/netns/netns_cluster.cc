#include "tests/netns/netns_cluster.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace strata::tests {

NetnsCluster::~NetnsCluster() {
  client_.reset();
  while (!daemons_.empty()) daemons_.pop_back();
}

absl::Status NetnsCluster::StartOn(const std::string& host, const std::string& title,
                                   std::vector<std::string> args) {
  auto started = StartDaemon(title, args, network_->On(host));
  if (!started.ok()) return started.status();
  daemons_.push_back(*std::move(started));
  return absl::OkStatus();
}

void NetnsCluster::LetUsersOperate() {
  std::filesystem::create_directories(TestDir() + "/state");
  std::ofstream(TestDir() + "/state/policy.textproto") << "default_user { role: OPERATE }\n";
}

absl::Status NetnsCluster::StartHead() {
  auto network = Network::Create();
  if (!network.ok()) return network.status();
  network_ = *std::move(network);
  absl::Status status = network_->AddHost("head", kHead);
  for (int i = 0; i < options_.nodes && status.ok(); ++i) {
    status = network_->AddHost(absl::StrCat("w", i), kFirstWorker + i);
  }
  if (!status.ok()) return status;
  keys_.emplace(TestDir() + "/keys");
  const std::string user = keys_->PathOf(keys::Role::kUser, "tester");
  setenv("STRATA_KEYS", user.c_str(), /*overwrite=*/1);  // for commands
  address_ = absl::StrCat(Network::AddressOf(kHead), ":7070");
  status = StartCoordinator();
  if (!status.ok()) return status;
  control::CoordinatorClient::Options client;
  client.coordinator = address_;
  client.credentials = control::Credentials::File(user);
  client.deadline = absl::Seconds(30);
  client_ = control::CoordinatorClient::Create(client);
  return absl::OkStatus();
}

absl::Status NetnsCluster::StartCoordinator() {
  return StartOn(
      "head", "coordinator",
      {"coordinator", "--listen", "0.0.0.0:7070", "--keys",
       keys_->PathOf(keys::Role::kCoordinator, "head"), "--state", TestDir() + "/state"});
}

void NetnsCluster::KillCoordinator() {
  Kill("coordinator");
  WaitForExit("coordinator");
}

absl::Status NetnsCluster::StartServer(const std::string& host, const std::string& name,
                                       const std::vector<std::string>& more) {
  std::vector<std::string> args = {"server",
                                   "--coordinator",
                                   address_,
                                   "--name",
                                   name,
                                   "--keys",
                                   keys_->PathOf(keys::Role::kServer, name)};
  args.insert(args.end(), more.begin(), more.end());
  return StartOn(host, absl::StrCat("server ", name), args);
}

absl::Status NetnsCluster::StartWorker(int i, const std::vector<std::string>& more) {
  const std::string name = absl::StrCat("w", i);
  std::vector<std::string> args = {"worker",
                                   "--coordinator",
                                   address_,
                                   "--name",
                                   name,
                                   "--keys",
                                   keys_->PathOf(keys::Role::kWorker, name),
                                   "--slots",
                                   absl::StrCat(options_.slots),
                                   "--runs",
                                   TestDir() + "/runs"};
  args.insert(args.end(), more.begin(), more.end());
  return StartOn(name, absl::StrCat("worker ", name), args);
}

absl::Status NetnsCluster::Start() {
  absl::Status status = StartHead();
  for (int i = 0; i < options_.servers && status.ok(); ++i) {
    status = StartServer("head", absl::StrCat("s", i));
  }
  for (int i = 0; i < options_.nodes && status.ok(); ++i) status = StartWorker(i);
  return status;
}

Daemon* NetnsCluster::Find(const std::string& title) {
  const auto found = std::find_if(daemons_.rbegin(), daemons_.rend(),
                                  [&](const Daemon& daemon) { return daemon.title == title; });
  if (found != daemons_.rend()) return &*found;
  ADD_FAILURE() << "no " << title << " was started";
  return nullptr;
}

void NetnsCluster::Signal(const std::string& title, int signal) {
  if (Daemon* const daemon = Find(title); daemon != nullptr) daemon->process->Signal(signal);
}

bool NetnsCluster::WaitForExit(const std::string& title) {
  Daemon* const daemon = Find(title);
  if (daemon == nullptr) return false;
  std::optional<ExitStatus> exit;
  return WaitUntil([&] { return (exit = daemon->process->TryReap()).has_value(); }) && exit->ok();
}

proto::DrainReply NetnsCluster::Drain(const std::string& daemon,
                                      proto::DrainRequest::Action action) {
  proto::DrainRequest request;
  request.set_daemon(daemon);
  request.set_action(action);
  const auto told = client_->Drain(request);
  EXPECT_TRUE(told.ok()) << told.status();
  return told.ok() ? *told : proto::DrainReply();
}

std::string NetnsCluster::CoordinatorLog() const {
  std::ifstream in(daemons_.at(0).log_path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

const std::string& NetnsCluster::ready_line(const std::string& title) const {
  static const std::string none;
  for (const Daemon& daemon : daemons_) {
    if (daemon.title == title) return daemon.ready_line;
  }
  return none;
}

proto::JobStatus NetnsCluster::Status(JobId job) {
  const auto status = client_->GetJob(job);
  EXPECT_TRUE(status.ok()) << status.status();
  return status.ok() ? *status : proto::JobStatus();
}

proto::JobStatus NetnsCluster::WaitFor(JobId job,
                                       const std::function<bool(const proto::JobStatus&)>& done) {
  proto::JobStatus status;
  EXPECT_TRUE(WaitUntil([&] {
    status = Status(job);
    return done(status);
  })) << status.ShortDebugString();
  return status;
}

proto::JobStatus NetnsCluster::WaitForEnd(JobId job) {
  return WaitFor(job,
                 [](const proto::JobStatus& status) { return control::HasEnded(status.state()); });
}

void NetnsTest::SetUp() {
  if (absl::IsPermissionDenied(OwnNetwork())) GTEST_SKIP() << OwnNetwork().message();
  ASSERT_EQ(OwnNetwork(), absl::OkStatus());
}

}  // namespace strata::tests
