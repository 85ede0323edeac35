#include "server/coordinator/testing/etcd_cluster.h"

#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/net/free_port.h"
#include "server/coordinator/service/etcd/etcd_client.h"
#include "server/coordinator/service/etcd/requests.h"

namespace strata::server {
namespace {

constexpr char kEtcd[] = "/usr/bin/etcd";
constexpr absl::Duration kStartMax = absl::Seconds(60);
constexpr absl::Duration kLook = absl::Milliseconds(500);
constexpr int kStartsMax = 5;  // somebody else may take a port that was free

std::string Url(int port) { return absl::StrCat("http://127.0.0.1:", port); }

}  // namespace

absl::StatusOr<std::unique_ptr<EtcdCluster>> EtcdCluster::Start(const std::string& folder) {
  if (!std::filesystem::exists(kEtcd)) {
    return absl::NotFoundError(absl::StrCat(
        kEtcd, ": is not installed: run deploy/install_packages.sh --tests (etcd-server)"));
  }
  absl::Status started;
  for (int tries = 0; tries < kStartsMax; ++tries) {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    std::unique_ptr<EtcdCluster> cluster(new EtcdCluster(folder));
    started = cluster->Begin();
    if (started.ok()) return cluster;
  }
  return started;
}

absl::Status EtcdCluster::Begin() {
  for (int member = 0; member < kMembers; ++member) {
    const std::optional<uint16_t> port = FreePort();
    const std::optional<uint16_t> peer_port = FreePort();
    if (!port.has_value() || !peer_port.has_value()) {
      return absl::ResourceExhaustedError("no port is free");
    }
    ports_[member] = *port;
    peer_ports_[member] = *peer_port;
  }
  for (int member = 0; member < kMembers; ++member) {
    const absl::Status begun = Restart(member);
    if (!begun.ok()) return begun;
  }
  return AwaitAnswer();
}

std::string EtcdCluster::endpoints() const {
  return absl::StrCat("127.0.0.1:", ports_[0], ",127.0.0.1:", ports_[1], ",127.0.0.1:", ports_[2]);
}

void EtcdCluster::Signal(int member, int signal) {
  processes_[member]->Signal(signal);
  siginfo_t stopped;
  if (signal == SIGSTOP) waitid(P_PID, processes_[member]->pid(), &stopped, WSTOPPED);
}

absl::Status EtcdCluster::Restart(int member) {
  std::string all;
  for (int other = 0; other < kMembers; ++other) {
    absl::StrAppend(&all, other == 0 ? "" : ",", "m", other, "=", Url(peer_ports_[other]));
  }
  Process::Spec spec;
  spec.args = {kEtcd,
               absl::StrCat("--name=m", member),
               "--logger=zap",
               "--log-level=warn",
               absl::StrCat("--data-dir=", folder_, "/m", member),
               absl::StrCat("--listen-client-urls=", Url(ports_[member])),
               absl::StrCat("--advertise-client-urls=", Url(ports_[member])),
               absl::StrCat("--listen-peer-urls=", Url(peer_ports_[member])),
               absl::StrCat("--initial-advertise-peer-urls=", Url(peer_ports_[member])),
               absl::StrCat("--initial-cluster=", all)};
  spec.log_path = absl::StrCat(folder_, "/m", member, ".log");
  absl::StatusOr<std::unique_ptr<Process>> process = Process::Start(spec);
  if (!process.ok()) return process.status();
  processes_[member] = *std::move(process);
  return absl::OkStatus();
}

absl::Status EtcdCluster::AwaitAnswer() {
  const auto client = EtcdClient::Open({.endpoints = endpoints(), .tls = {}, .deadline = kLook});
  if (!client.ok()) return client.status();
  const RealClock clock;
  const absl::Time until = clock.Now() + kStartMax;
  while (true) {
    const absl::Status answers = (*client)->Range(RangeOf("ready")).status();
    if (answers.ok() || clock.Now() > until) return answers;
    for (const std::unique_ptr<Process>& process : processes_) {
      if (process->TryReap().has_value()) {
        return absl::AbortedError(absl::StrCat(kEtcd, ": has ended: see ", folder_));
      }
    }
  }
}

}  // namespace strata::server
