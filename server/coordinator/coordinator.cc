#include "server/coordinator/coordinator.h"

#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/control/addresses.h"
#include "common/log.h"
#include "common/os/descriptors.h"
#include "common/os/unix_socket.h"
#include "common/seal/secret.h"
#include "common/unique_fd.h"
#include "server/coordinator/access/access.h"
#include "server/coordinator/access/audit_log.h"
#include "server/coordinator/access/key_store.h"
#include "server/coordinator/access/known_cluster.h"
#include "server/coordinator/access/policy_file.h"
#include "server/coordinator/service/acceptor.h"
#include "server/coordinator/service/coordinator_service.h"
#include "server/coordinator/service/etcd_state.h"
#include "server/coordinator/service/front.h"
#include "server/coordinator/service/job_store.h"
#include "server/coordinator/service/keys_service.h"
#include "server/coordinator/service/logs_service.h"

namespace strata::server {
namespace {

constexpr uint64_t kSpareDescriptors = 16;
// How often a standby coordinator checks whether it must stop.
constexpr absl::Duration kStopLook = absl::Milliseconds(100);

// The command that renews a coordinator's own certificate.
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
    // Checked before the state folder is created, so that a refused start leaves none behind.
    const absl::StatusOr<StoredKeys> there = LoadKeys(options_.state_dir);
    const absl::Status may = there.ok() ? CheckKeys(*there) : absl::OkStatus();
    if (!may.ok()) return may;
    if (!options_.etcd.endpoints.empty()) return there.ok() ? StandBy(*there) : there.status();
    if (absl::Status own = RequireStandaloneState(options_.state_dir); !own.ok()) return own;
    absl::StatusOr<std::unique_ptr<JobStore>> store = JobStore::Open(options_.state_dir);
    if (!store.ok()) return store.status();
    store_ = *std::move(store);
    const absl::Status leads = Lead({});
    if (leads.ok()) StartAccepting();
    return leads;
  }

  void Stop() override {
    if (acceptor_ != nullptr) acceptor_->Stop();
    if (campaign_.joinable()) {
      // A leader still has state to save.
      if (serving_ == nullptr) etcd_->StopCalls();
      campaign_.request_stop();
      campaign_.join();
    }
    if (serving_ != nullptr) logs_service_->End();
    if (serving_ != nullptr) service_->EndFollowers();
    {
      absl::MutexLock lock(&front_mutex_);
      if (front_ != nullptr) front_->Stop();
    }
    if (service_ != nullptr) service_->Stop();
    {
      absl::MutexLock lock(&front_mutex_);
      front_.reset();
    }
    acceptor_.reset();
    serving_ = nullptr;
    logs_service_.reset();
    keys_service_.reset();
    service_.reset();
    audit_.reset();
    access_.reset();
    policy_.reset();
    store_.reset();
    etcd_.reset();
    lock_ = UniqueFd();
  }

  int port() const override { return acceptor_ == nullptr ? 0 : acceptor_->port(); }

 private:
  // Opens the rest of the state, resumes the jobs in `store_`, and serves.
  absl::Status Lead(CoordinatorService::Leading leading) {
    // Read only once this process owns the state: its former owner may have written revocations
    // until then.
    if (absl::Status policy = TakePolicy(); !policy.ok()) return policy;
    if (absl::Status keys = TakeKeys(); !keys.ok()) return keys;
    absl::StatusOr<std::unique_ptr<AuditLog>> audit =
        AuditLog::Open(options_.state_dir + "/audit.log");
    if (!audit.ok()) return audit.status();
    audit_ = *std::move(audit);
    auto service = std::make_unique<CoordinatorService>(CoreOptions(), options_.limits,
                                                        store_.get(), access_.get(), audit_.get(),
                                                        options_.open_store, std::move(leading));
    keys_service_ =
        std::make_unique<KeysService>(access_.get(), service->doorkeeper(), service->call_gate(),
                                      [service = service.get()] { service->EndRevokedSessions(); });
    logs_service_ = std::make_unique<LogsService>(
        access_.get(), service->doorkeeper(), service->call_gate(), options_.limits,
        std::bind_front(&CoordinatorService::LookForLogs, service.get()));
    service_ = std::move(service);
    if (absl::Status started = service_->Start(); !started.ok()) return started;
    serving_ = service_.get();
    auto front = Front::Serve(FrontOptions(access_->own()),
                              {service_.get(), keys_service_.get(), logs_service_.get()});
    if (!front.ok()) return front.status();
    ServeAt(*std::move(front));
    if (options_.insecure && HasPort()) {
      LogWarning("--insecure: whoever reaches %s may run programs as this user", options_.listen);
    }
    return absl::OkStatus();
  }

  CoordinatorCore::Options CoreOptions() {
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
    return core;
  }

  // ---- one of several coordinators ----

  // Listens, reports the leader, and starts its own candidacy.
  absl::Status StandBy(const StoredKeys& stored) {
    const std::string sqlite = absl::StrCat(options_.state_dir, "/", JobStore::kFile);
    if (access(sqlite.c_str(), F_OK) == 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "--etcd: ", sqlite, " has the jobs of a coordinator without etcd, which would be left ",
          "behind: name another folder with --state, with a copy of ", options_.state_dir,
          "/keys in it"));
    }
    absl::StatusOr<UniqueFd> lock = LockState(options_.state_dir);
    if (!lock.ok()) return lock.status();
    lock_ = *std::move(lock);
    const std::optional<keys::KeyFile>& own =
        options_.own_keys.has_value() ? options_.own_keys : stored.own;
    auto etcd = EtcdState::Open(EtcdOptions(own));
    if (!etcd.ok()) return etcd.status();
    etcd_ = *std::move(etcd);
    if (auto own = KeepToCluster(options_.state_dir, etcd_->found()); !own.ok()) return own;
    const absl::Status campaign =
        etcd_->Campaign(Advertised(), [on_lost = options_.on_lost](const absl::Status& why) {
          on_lost(absl::Status(why.code(),
                               absl::StrCat("this coordinator leads no longer: ", why.message())));
        });
    if (!campaign.ok()) return campaign;
    auto front =
        Front::Refuse(FrontOptions(own), [this] { return control::StandbyText(etcd_->leader()); });
    if (!front.ok()) return front.status();
    ServeAt(*std::move(front));
    StartAccepting();
    const std::string leader = etcd_->leader();
    LogInfo("stands by for cluster %s: %s", etcd_->cluster(), control::StandbyText(leader));
    campaign_ = std::jthread([this](const std::stop_token& stop) { AwaitLead(stop); });
    return absl::OkStatus();
  }

  EtcdState::Options EtcdOptions(const std::optional<keys::KeyFile>& own) const {
    const Etcd& given = options_.etcd;
    EtcdState::Options etcd{.endpoints = given.endpoints,
                            .tls = {given.ca_file, given.cert_file, given.key_file},
                            .cluster = given.cluster,
                            .failover = given.failover};
    if (etcd.cluster.empty()) etcd.cluster = own.has_value() ? own->identity.cluster : "strata";
    if (!own.has_value()) return etcd;
    for (const keys::Certificate& root : own->roots) {
      etcd.roots.push_back(keys::FingerprintText(root.fingerprint()));
    }
    return etcd;
  }

  std::string Advertised() const {
    if (!options_.etcd.advertise.empty()) return options_.etcd.advertise;
    const std::string& listen = options_.listen;
    return absl::StrCat(listen.substr(0, listen.rfind(':')), ":", port());
  }

  void AwaitLead(const std::stop_token& stop) {
    absl::StatusOr<Leadership> leadership = absl::DeadlineExceededError("");
    while (absl::IsDeadlineExceeded(leadership.status())) {
      if (stop.stop_requested()) return;
      leadership = etcd_->AwaitElection(kStopLook);
    }
    if (!leadership.ok()) return;  // deposed already, which on_lost says
    const absl::Status leads = LeadFrom(*leadership);
    // If the lease has ended, it reports why.
    if (!leads.ok() && !stop.stop_requested() && etcd_->leads()) options_.on_lost(leads);
  }

  absl::Status LeadFrom(const Leadership& leadership) {
    auto store = etcd_->OpenStore(leadership);
    if (!store.ok()) return store.status();
    if (auto own = KeepToCluster(options_.state_dir, etcd_->found()); !own.ok()) return own;
    store_ = *std::move(store);
    const auto epoch = static_cast<uint64_t>(leadership.create_revision);
    const absl::Status leads = Lead({.epoch = epoch,
                                     .leads = [this] { return etcd_->leads(); },
                                     .on_later_epoch = [this] { etcd_->Doubt(); }});
    if (leads.ok()) LogInfo("leads cluster %s, epoch %d", leadership.cluster, epoch);
    return leads;
  }

  // ---- connections ----

  Front::Options FrontOptions(const std::optional<keys::KeyFile>& own) const {
    return {.own = own, .idle_after = options_.idle_after, .silence = options_.dead_after};
  }

  // From now on `front` gets the connections; the previous ones end.
  void ServeAt(std::unique_ptr<Front> front) {
    {
      absl::MutexLock lock(&front_mutex_);
      front_.swap(front);
    }
    if (front != nullptr) front->Stop();
  }

  void StartAccepting() {
    acceptor_->Start({.take =
                          [this](UniqueFd fd, bool is_own) {
                            absl::MutexLock lock(&front_mutex_);
                            front_->Take(std::move(fd), is_own);
                          },
                      .refused =
                          [this] {
                            CoordinatorService* const serving = serving_;
                            if (serving != nullptr) serving->CountRefusedConnection();
                          },
                      .stranger =
                          [this] {
                            CoordinatorService* const serving = serving_;
                            if (serving != nullptr) serving->CountStranger();
                          }});
  }

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

  // Checks that the coordinator can listen with its keys.
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
    if (etcd_ != nullptr) {
      if (absl::Status shared = ShareBook(&stored->book); !shared.ok()) return shared;
    }
    access.book = std::move(stored->book);
    access.policy = [policy = policy_.get()](absl::Time now) { return policy->Current(now); };
    access.save = [this](const proto::KeyBookRecord& book) { return Save(book); };
    access.takes_everybody = HasPort() && options_.insecure;
    access_ = std::make_unique<Access>(std::move(access));
    return absl::OkStatus();
  }

  // Uses the book that all coordinators share instead of the file, which is the first
  // coordinator's.
  absl::Status ShareBook(proto::KeyBookRecord* book) {
    absl::StatusOr<std::optional<proto::KeyBookRecord>> shared = etcd_->LoadBook();
    if (!shared.ok()) return shared.status();
    if (!shared->has_value()) return etcd_->SaveBook(*book);
    *book = **std::move(shared);
    return absl::OkStatus();
  }

  absl::Status Save(const proto::KeyBookRecord& book) {
    if (etcd_ == nullptr) return SaveBook(options_.state_dir, book);
    const absl::Status saved = etcd_->SaveBook(book);
    if (!saved.ok() || options_.own_keys.has_value()) return saved;
    // `strata keys rotate-ca` reads it there.
    const absl::Status copied = SaveBook(options_.state_dir, book);
    if (!copied.ok()) LogWarning("no copy of the keys' names: %s", std::string(copied.message()));
    return absl::OkStatus();
  }

  // Leaves descriptors for what the process needs besides connections.
  int ConnectionDescriptorsMax() const {
    return static_cast<int>(CoordinatorDescriptors(options_.limits).total - kSpareDescriptors);
  }

  const Options options_;
  UniqueFd lock_;                    // of the state directory, with etcd
  std::unique_ptr<EtcdState> etcd_;  // null: there is a single coordinator
  std::unique_ptr<JobStore> store_;
  std::unique_ptr<PolicyFile> policy_;
  std::unique_ptr<Access> access_;
  std::unique_ptr<AuditLog> audit_;
  std::unique_ptr<CoordinatorService> service_;
  std::atomic<CoordinatorService*> serving_ = nullptr;  // the service, once it has started
  std::unique_ptr<KeysService> keys_service_;
  std::unique_ptr<LogsService> logs_service_;
  std::unique_ptr<Acceptor> acceptor_;
  absl::Mutex front_mutex_;
  std::unique_ptr<Front> front_ ABSL_GUARDED_BY(front_mutex_);
  std::jthread campaign_;  // last member: it creates most of the others
};

bool IsWildcard(const std::string& host) {
  return host == "0.0.0.0" || host == "*" || host == "[::]";
}

// Checks the etcd options.
absl::Status CheckEtcd(const Coordinator::Options& options) {
  const Coordinator::Etcd& etcd = options.etcd;
  if (etcd.endpoints.empty()) {
    const bool is_more =
        !(etcd.ca_file + etcd.cert_file + etcd.key_file + etcd.cluster + etcd.advertise).empty();
    return is_more ? absl::InvalidArgumentError(
                         "etcd: files, a cluster or an address of it, and "
                         "no HOST:PORT where it is")
                   : absl::OkStatus();
  }
  if (!options.on_lost) return absl::InvalidArgumentError("on_lost: is required with etcd");
  const std::string host = options.listen.substr(0, options.listen.rfind(':'));
  if (etcd.advertise.empty() && (UnixPath(options.listen) || IsWildcard(host))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--etcd: --listen ", options.listen,
        " is no address that other hosts know this one by: --advertise HOST:PORT says it"));
  }
  return absl::OkStatus();
}

absl::Status CheckPositive(const char* option, absl::Duration value) {
  if (value > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, ": ", absl::FormatDuration(value), " is not positive"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Create(Options options) {
  const absl::Status valid = options.Validate();
  if (!valid.ok()) return valid;
  return std::make_unique<GrpcCoordinator>(std::move(options));
}

absl::Status Coordinator::Options::Validate() const {
  if (listen.empty())
    return absl::InvalidArgumentError("listen: HOST:PORT or unix:/PATH is required");
  if (state_dir.empty()) return absl::InvalidArgumentError("state: a directory is required");
  if (heartbeat >= dead_after) {
    return absl::InvalidArgumentError(absl::StrCat("dead_after: ", absl::FormatDuration(dead_after),
                                                   " is not longer than a heartbeat (",
                                                   absl::FormatDuration(heartbeat), ")"));
  }
  if (absl::Status several = CheckEtcd(*this); !several.ok()) return several;
  if (absl::Status wait = CheckPositive("failover", etcd.failover); !wait.ok()) return wait;
  const absl::Status counts = limits.Validate();
  const absl::Status idle = CheckPositive("idle_after", idle_after);
  if (!counts.ok() || !idle.ok()) return counts.ok() ? idle : counts;
  return CheckPositive("heartbeat", heartbeat);
}

}  // namespace strata::server
