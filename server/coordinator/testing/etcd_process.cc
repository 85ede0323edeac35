#include "server/coordinator/testing/etcd_process.h"

#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/net/free_port.h"
#include "server/coordinator/service/etcd/requests.h"

namespace strata::server {
namespace {

constexpr char kEtcd[] = "/usr/bin/etcd";
constexpr absl::Duration kStartMax = absl::Seconds(60);
constexpr absl::Duration kLook = absl::Milliseconds(500);
constexpr int kStartsMax = 5;  // somebody else may take a port that was free

}  // namespace

EtcdProcess::EtcdProcess(std::string folder, Options options, uint16_t port, uint16_t peer_port)
    : folder_(std::move(folder)),
      options_(std::move(options)),
      port_(port),
      peer_port_(peer_port) {}

absl::StatusOr<std::unique_ptr<EtcdProcess>> EtcdProcess::Start(const std::string& folder,
                                                                const Options& options) {
  if (!std::filesystem::exists(kEtcd)) {
    return absl::NotFoundError(absl::StrCat(
        kEtcd, ": is not installed: run deploy/install_packages.sh --tests (etcd-server)"));
  }
  absl::Status started;
  for (int tries = 0; tries < kStartsMax; ++tries) {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    const std::optional<uint16_t> port = FreePort();
    const std::optional<uint16_t> peer_port = FreePort();
    if (!port.has_value() || !peer_port.has_value()) {
      return absl::ResourceExhaustedError("no port is free");
    }
    std::unique_ptr<EtcdProcess> etcd(new EtcdProcess(folder, options, *port, *peer_port));
    started = etcd->Restart();
    if (started.ok()) return etcd;
  }
  return started;
}

std::string EtcdProcess::endpoint() const { return absl::StrCat("127.0.0.1:", port_); }

EtcdClient::Options EtcdProcess::ClientOptions(absl::Duration deadline) const {
  return {.endpoints = endpoint(),
          .tls = {options_.ca_file, options_.cert_file, options_.key_file},
          .deadline = deadline};
}

std::shared_ptr<EtcdClient> EtcdProcess::Client(absl::Duration deadline) const {
  return *EtcdClient::Open(ClientOptions(deadline));
}

void EtcdProcess::Signal(int signal) {
  process_->Signal(signal);
  siginfo_t stopped;
  if (signal == SIGSTOP) waitid(P_PID, process_->pid(), &stopped, WSTOPPED);
}

void EtcdProcess::Kill() { process_.reset(); }

absl::Status EtcdProcess::Restart() {
  const bool is_tls = !options_.ca_file.empty();
  const std::string client_url = absl::StrCat(is_tls ? "https://" : "http://", endpoint());
  const std::string peer_url = absl::StrCat("http://127.0.0.1:", peer_port_);
  Process::Spec spec;
  spec.args = {kEtcd,
               "--name=test",
               "--logger=zap",
               "--log-level=warn",
               absl::StrCat("--data-dir=", folder_, "/data"),
               absl::StrCat("--listen-client-urls=", client_url),
               absl::StrCat("--advertise-client-urls=", client_url),
               absl::StrCat("--listen-peer-urls=", peer_url),
               absl::StrCat("--initial-advertise-peer-urls=", peer_url),
               absl::StrCat("--initial-cluster=test=", peer_url)};
  if (is_tls) {
    spec.args.insert(spec.args.end(),
                     {absl::StrCat("--trusted-ca-file=", options_.ca_file),
                      absl::StrCat("--cert-file=", options_.cert_file),
                      absl::StrCat("--key-file=", options_.key_file), "--client-cert-auth"});
  }
  spec.args.insert(spec.args.end(), options_.more.begin(), options_.more.end());
  spec.log_path = folder_ + "/etcd.log";
  absl::StatusOr<std::unique_ptr<Process>> process = Process::Start(spec);
  if (!process.ok()) return process.status();
  process_ = *std::move(process);
  const auto client = EtcdClient::Open(ClientOptions(kLook));
  if (!client.ok()) return client.status();
  const RealClock clock;
  const absl::Time until = clock.Now() + kStartMax;
  while (true) {
    const absl::Status answers = (*client)->Range(RangeOf("ready")).status();
    if (answers.ok() || clock.Now() > until) return answers;
    if (process_->TryReap().has_value()) {
      return absl::AbortedError(absl::StrCat(kEtcd, ": has ended: see ", spec.log_path));
    }
  }
}

}  // namespace strata::server
