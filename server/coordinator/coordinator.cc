#include "server/coordinator/coordinator.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/control/channel.h"
#include "common/ipc/unix_socket.h"
#include "common/limits/descriptors.h"
#include "common/log.h"
#include "common/seal/secret.h"
#include "common/unique_fd.h"
#include "server/coordinator/access/access.h"
#include "server/coordinator/access/audit_log.h"
#include "server/coordinator/access/key_store.h"
#include "server/coordinator/access/own_keys.h"
#include "server/coordinator/access/policy_file.h"
#include "server/coordinator/service/acceptor.h"
#include "server/coordinator/service/coordinator_service.h"
#include "server/coordinator/service/job_store.h"
#include "server/coordinator/service/keys_service.h"

namespace strata::server {
namespace {

constexpr std::chrono::milliseconds kShutdownGrace(300);
constexpr int kKeepaliveMs = 5000;
constexpr int kPingIntervalMsMin = 1000;
// How long the beginning of HTTP/2 may take.
constexpr int kHandshakeMs = 10000;
constexpr int kStreamsPerConnectionMax = 64;
constexpr uint64_t kSpareDescriptors = 16;

// Connections of those without a certificate are taken, too: they may join, and others are told
// what is wrong with theirs, call by call (`Admit`). That the other side has its certificate's key,
// TLS itself sees to.
std::shared_ptr<grpc::ServerCredentials> TlsCredentialsOf(const keys::KeyFile& own) {
  // Who joins knows the authority by its fingerprint alone, so it is shown, too.
  const auto provider = std::make_shared<grpc::experimental::StaticDataCertificateProvider>(
      own.RootsPem(), std::vector<grpc::experimental::IdentityKeyCertPair>{
                          {own.key.ToPem(), own.ChainPem() + own.RootsPem()}});
  grpc::experimental::TlsServerCredentialsOptions options(provider);
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  options.set_certificate_verifier(std::make_shared<grpc::experimental::NoOpCertificateVerifier>());
  return grpc::experimental::TlsServerCredentials(options);
}

// What makes a coordinator's own certificate anew.
std::string HowToRenew(const StoredKeys& stored, const std::string& state, absl::Time now) {
  const std::string rotate = absl::StrCat("`strata keys rotate-ca --state ", state);
  if (!stored.authority.has_value()) return absl::StrCat(rotate, "` makes new keys");
  const auto& roots = stored.authority->roots();
  if (roots.size() > 1) return absl::StrCat(rotate, " --finish --force` makes new keys");
  if (roots.front().not_after() < now) {
    return absl::StrCat(rotate, "` makes new keys, and all members join anew");
  }
  return absl::StrCat(rotate,
                      "` and then the same with --finish --force make new keys, and all members "
                      "join anew");
}

class GrpcCoordinator final : public Coordinator {
 public:
  explicit GrpcCoordinator(Options options) : options_(std::move(options)) {}
  ~GrpcCoordinator() override { Stop(); }

  absl::Status Start() override {
    const absl::Status descriptors =
        EnsureDescriptors("strata coordinator", CoordinatorDescriptors(options_.limits));
    if (!descriptors.ok()) return descriptors;
    auto acceptor = Acceptor::Create({.listen = options_.listen,
                                      .also = options_.also_listen,
                                      .descriptors_max = ConnectionDescriptorsMax()});
    if (!acceptor.ok()) return acceptor.status();
    acceptor_ = *std::move(acceptor);
    // Before the state's folder is made: one that is refused leaves none behind.
    const absl::StatusOr<StoredKeys> there = LoadKeys(options_.state_dir);
    const absl::Status may = there.ok() ? CheckKeys(*there) : absl::OkStatus();
    if (!may.ok()) return may;
    absl::StatusOr<std::unique_ptr<JobStore>> store = JobStore::Open(options_.state_dir);
    if (!store.ok()) return store.status();
    store_ = *std::move(store);
    // Once the state is this process's: one that had it may have written who is revoked until then.
    if (absl::Status policy = TakePolicy(); !policy.ok()) return policy;
    const absl::Status keys = TakeKeys();
    if (!keys.ok()) return keys;
    absl::StatusOr<std::unique_ptr<AuditLog>> audit =
        AuditLog::Open(options_.state_dir + "/audit.log");
    if (!audit.ok()) return audit.status();
    audit_ = *std::move(audit);
    CoordinatorCore::Options core;
    core.heartbeat = options_.heartbeat;
    core.membership.dead_after = options_.dead_after;
    core.membership.reconnect_grace = options_.reconnect_grace;
    core.jobs.restart_patience = options_.restart_patience;
    core.jobs.settle_after = options_.settle_after;
    core.jobs.slots_of_user = [access = access_.get()](const std::string& user) {
      return access->SlotsOf(user, absl::Now());
    };
    core.add_memory_parts = options_.add_memory_parts;
    core.jobs.protection = [this] {
      ProtectionRules rules = access_->rules(absl::Now());
      rules.keeps_secrets = rules.has_keys || !options_.insecure;
      rules.allows_plain |= options_.is_one_users;
      rules.trusts_network |= options_.is_one_users;
      return rules;
    };
    core.jobs.new_secret = [] {
      const seal::Secret secret = seal::NewSecret();
      return std::string(reinterpret_cast<const char*>(secret.data()), secret.size());
    };
    service_ = std::make_unique<CoordinatorService>(
        core, options_.limits, store_.get(), access_.get(), audit_.get(), options_.open_store);
    keys_service_ =
        std::make_unique<KeysService>(access_.get(), service_->doorkeeper(), service_->call_gate(),
                                      [this] { service_->EndRevokedSessions(); });
    const absl::Status started = service_->Start();
    if (!started.ok()) return started;
    return Serve();
  }

  void Stop() override {
    if (acceptor_ != nullptr) acceptor_->Stop();
    if (server_ != nullptr) {
      service_->EndFollowers();
      server_->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
      server_->Wait();
    }
    if (service_ != nullptr) service_->Stop();
    server_.reset();
    acceptor_.reset();
    hand_over_.reset();
    hand_over_plain_.reset();
    keys_service_.reset();
    service_.reset();
    audit_.reset();
    access_.reset();
    policy_.reset();
    store_.reset();
  }

  int port() const override { return acceptor_ == nullptr ? 0 : acceptor_->port(); }

 private:
  using HandOver = grpc::experimental::ExternalConnectionAcceptor;

  absl::Status TakePolicy() {
    const bool is_named = !options_.policy_file.empty();
    const std::string path =
        is_named ? options_.policy_file : options_.state_dir + "/policy.textproto";
    if (options_.insecure && access(path.c_str(), F_OK) == 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "--insecure: nobody shows who they are, so the policy in ", path, " would say nothing"));
    }
    auto policy = PolicyFile::Open(path, is_named);
    if (!policy.ok()) return policy.status();
    policy_ = *std::move(policy);
    return absl::OkStatus();
  }

  bool HasPort() const { return !UnixPath(options_.listen); }

  // Whether the coordinator can listen with the keys that it has.
  absl::Status CheckKeys(const StoredKeys& stored) const {
    const bool is_given = options_.own_keys.has_value();
    const std::optional<keys::KeyFile>& own = is_given ? options_.own_keys : stored.own;
    const std::string& state = options_.state_dir;
    if (HasPort() && !options_.insecure && !own.has_value()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "--listen ", options_.listen,
          ": others may reach that, and there are no keys: `strata keys init --state ", state,
          "` makes them, unix:/PATH is for this user alone, and --insecure lets whoever reaches "
          "the port run programs as you"));
    }
    if (!own.has_value()) return absl::OkStatus();
    if (options_.insecure) {
      return absl::FailedPreconditionError(
          "--insecure: there are keys, which it would leave unused");
    }
    return CheckOwnKeys(
        *own, is_given ? options_.own_keys_from : state + "/keys/coordinator.pem",
        is_given ? "get a new one from its authority, and make a file of it with `strata keys "
                   "import`"
                 : HowToRenew(stored, state, absl::Now()),
        absl::Now());
  }

  absl::Status TakeKeys() {
    absl::StatusOr<StoredKeys> stored = LoadKeys(options_.state_dir);
    if (!stored.ok()) return stored.status();
    const absl::Status may = CheckKeys(*stored);
    if (!may.ok()) return may;
    Access::Options access;
    access.own = options_.own_keys.has_value() ? options_.own_keys : stored->own;
    if (!options_.own_keys.has_value()) access.authority = std::move(stored->authority);
    access.book = std::move(stored->book);
    access.policy = [policy = policy_.get()](absl::Time now) { return policy->Current(now); };
    access.save = [dir = options_.state_dir](const proto::KeyBookRecord& book) {
      return SaveBook(dir, book);
    };
    access.takes_everybody = HasPort() && options_.insecure;
    access_ = std::make_unique<Access>(std::move(access));
    return absl::OkStatus();
  }

  absl::Status Serve() {
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                               static_cast<int>(absl::ToInt64Milliseconds(options_.idle_after)));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnectionMax);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, KeepaliveTimeoutMs());
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                               kPingIntervalMsMin);
    builder.SetMaxReceiveMessageSize(control::kMessageBytesMax);
    builder.SetMaxSendMessageSize(control::kMessageBytesMax);
    using Type = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
    hand_over_plain_ = builder.experimental().AddExternalConnectionAcceptor(
        Type::FROM_FD, grpc::InsecureServerCredentials());
    if (access_->own().has_value()) {
      hand_over_ = builder.experimental().AddExternalConnectionAcceptor(
          Type::FROM_FD, TlsCredentialsOf(*access_->own()));
    }
    builder.RegisterService(service_.get());
    builder.RegisterService(keys_service_.get());
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return absl::InternalError("gRPC does not start");
    acceptor_->Start({.take = [this](UniqueFd fd, bool is_own) { Take(std::move(fd), is_own); },
                      .refused = [this] { service_->CountRefusedConnection(); },
                      .stranger = [this] { service_->CountStranger(); }});
    if (options_.insecure && acceptor_->port() != 0) {
      LogWarning("--insecure: whoever reaches %s may run programs as this user", options_.listen);
    }
    return absl::OkStatus();
  }

  void Take(UniqueFd fd, bool is_own) {
    // As gRPC does for the connections that it takes itself: what a peer that has vanished does not
    // confirm.
    const int timeout_ms = KeepaliveTimeoutMs();
    setsockopt(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = fd.Release();
    HandOver* const to =
        is_own || hand_over_ == nullptr ? hand_over_plain_.get() : hand_over_.get();
    to->HandleNewConnection(&connection);
  }

  // What the process needs besides connections stays free.
  int ConnectionDescriptorsMax() const {
    return static_cast<int>(CoordinatorDescriptors(options_.limits).total - kSpareDescriptors);
  }

  // A daemon may be silent for as long as the options say.
  int KeepaliveTimeoutMs() const {
    const absl::Duration timeout = std::min(options_.dead_after, absl::Hours(24));
    return std::max(kKeepaliveMs, static_cast<int>(absl::ToInt64Milliseconds(timeout)));
  }

  const Options options_;
  std::unique_ptr<JobStore> store_;
  std::unique_ptr<PolicyFile> policy_;
  std::unique_ptr<Access> access_;
  std::unique_ptr<AuditLog> audit_;
  std::unique_ptr<CoordinatorService> service_;
  std::unique_ptr<KeysService> keys_service_;
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<HandOver> hand_over_;  // with TLS; null: there are no keys
  std::unique_ptr<HandOver> hand_over_plain_;
  std::unique_ptr<grpc::Server> server_;
};

absl::Status CheckPositive(const char* option, absl::Duration value) {
  if (value > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, ": ", absl::FormatDuration(value), " is not positive"));
}

}  // namespace

absl::Status Coordinator::Options::Validate() const {
  if (listen.empty())
    return absl::InvalidArgumentError("listen: HOST:PORT or unix:/PATH is required");
  if (state_dir.empty()) return absl::InvalidArgumentError("state: a directory is required");
  if (heartbeat >= dead_after) {
    return absl::InvalidArgumentError(absl::StrCat("dead_after: ", absl::FormatDuration(dead_after),
                                                   " is not longer than a heartbeat (",
                                                   absl::FormatDuration(heartbeat), ")"));
  }
  const absl::Status counts = limits.Validate();
  const absl::Status idle = CheckPositive("idle_after", idle_after);
  if (!counts.ok() || !idle.ok()) return counts.ok() ? idle : counts;
  return CheckPositive("heartbeat", heartbeat);
}

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Create(Options options) {
  const absl::Status valid = options.Validate();
  if (!valid.ok()) return valid;
  return std::make_unique<GrpcCoordinator>(std::move(options));
}

}  // namespace strata::server
