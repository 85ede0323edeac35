#include "server/coordinator/service/leader_lease.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/log.h"
#include "server/coordinator/service/etcd_client.h"

namespace strata::server {
namespace {

// Pause after an error that may be transient.
constexpr absl::Duration kLeaderLeasePause = absl::Milliseconds(200);
constexpr absl::Duration kGiveUpWithin = absl::Milliseconds(500);

}  // namespace

absl::StatusOr<std::string> ReadLeader(EtcdClient& client, const std::string& cluster) {
  if (absl::Status name = EtcdKeys::CheckCluster(cluster); !name.ok()) return name;
  const std::string key = EtcdKeys(cluster).Leader();
  const auto range = client.Range(RangeOf(key));
  if (!range.ok()) return range.status();
  const mvccpb::KeyValue* leader = OnlyKey(*range);
  if (leader == nullptr) {
    return absl::NotFoundError(
        absl::StrFormat("%s: %s: no coordinator leads now", client.name(), key));
  }
  return leader->value();
}

absl::StatusOr<std::unique_ptr<LeaderLease>> LeaderLease::Start(std::shared_ptr<EtcdClient> client,
                                                                Options options) {
  const absl::StatusOr<std::string> leader = ReadLeader(*client, options.cluster);
  if (!leader.ok() && !absl::IsNotFound(leader.status())) return leader.status();
  std::unique_ptr<LeaderLease> lease(new LeaderLease(std::move(client), std::move(options)));
  if (leader.ok()) lease->SetLeader(*leader);
  LeaderLease* const started = lease.get();
  lease->thread_ = std::jthread([started](const std::stop_token& stop) { started->Run(stop); });
  return lease;
}

LeaderLease::LeaderLease(std::shared_ptr<EtcdClient> client, Options options)
    : client_(std::move(client)), options_(std::move(options)), keys_(options_.cluster) {}

LeaderLease::~LeaderLease() {
  thread_.request_stop();  // wakes the thread before it asks why; it is joined before the other
                           // members are destroyed
  absl::MutexLock lock(&mutex_);
  stop_ = true;
  stage_ = Stage::kOver;
}

absl::StatusOr<Leadership> LeaderLease::AwaitElection(absl::Duration at_most) {
  absl::MutexLock lock(&mutex_);
  const auto has_changed = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stage_ != Stage::kWaits;
  };
  mutex_.AwaitWithTimeout(absl::Condition(&has_changed), at_most);
  switch (stage_) {
    case Stage::kLeads:
      return leadership_;
    case Stage::kOver:
      return absl::FailedPreconditionError(
          absl::StrCat(keys_.Leader(), ": this coordinator leads no longer"));
    case Stage::kWaits:
      break;
  }
  return absl::DeadlineExceededError(
      absl::StrCat(keys_.Leader(), ": ", leader_.empty() ? "nobody" : leader_, " leads"));
}

bool LeaderLease::leads() const {
  absl::MutexLock lock(&mutex_);
  return stage_ == Stage::kLeads && clock_.Now() < end_;
}

std::string LeaderLease::leader() const {
  absl::MutexLock lock(&mutex_);
  return leader_;
}

void LeaderLease::SetLeader(const std::string& address) {
  absl::MutexLock lock(&mutex_);
  leader_ = address;
}

void LeaderLease::Doubt() {
  absl::MutexLock lock(&mutex_);
  is_doubted_ = true;
}

bool LeaderLease::SleepUntil(absl::Time until) {
  absl::MutexLock lock(&mutex_);
  const auto wakes = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stop_ || is_doubted_; };
  mutex_.AwaitWithTimeout(absl::Condition(&wakes), until - clock_.Now());
  is_doubted_ = false;
  return !stop_;
}

void LeaderLease::Run(const std::stop_token& stop) {
  std::string warned;
  std::optional<Held> held;
  while (!held.has_value()) {
    absl::StatusOr<std::optional<Held>> campaign = Campaign(stop);
    if (stop.stop_requested() && !(campaign.ok() && campaign->has_value())) return;
    if (campaign.ok()) {
      warned.clear();
      held = *std::move(campaign);
      continue;
    }
    if (warned != campaign.status().message()) {
      warned = std::string(campaign.status().message());
      LogWarning("waits to lead: %s", warned);
    }
    if (!SleepUntil(clock_.Now() + kLeaderLeasePause)) return;
  }
  SetLeader(options_.address);
  {
    absl::MutexLock lock(&mutex_);
    leadership_ = held->leadership;
    end_ = held->timing.end();
    if (!stop_) stage_ = Stage::kLeads;
  }
  const absl::Status why = Hold(*held, stop);
  {
    absl::MutexLock lock(&mutex_);
    stage_ = Stage::kOver;
  }
  // If it is gone already, nothing is lost.
  if (stop.stop_requested() || absl::IsFailedPrecondition(why)) {
    client_->RevokeLease(held->lease, {.deadline = kGiveUpWithin}).IgnoreError();
  }
  if (!stop.stop_requested() && options_.on_deposed) options_.on_deposed(why);
}

absl::StatusOr<std::optional<LeaderLease::Held>> LeaderLease::Campaign(
    const std::stop_token& stop) {
  const auto range = client_->Range(RangeOf(keys_.Leader()), {.stop = stop});
  if (!range.ok()) return range.status();
  const mvccpb::KeyValue* leader = OnlyKey(*range);
  SetLeader(leader == nullptr ? "" : leader->value());
  if (leader == nullptr) return Take(stop);
  // A paused member says nothing, so etcd is asked again after each TTL.
  const absl::Status gone = client_->AwaitDeletion(keys_.Leader(), range->header().revision(),
                                                   {.deadline = options_.ttl, .stop = stop});
  if (!gone.ok() && !absl::IsDeadlineExceeded(gone)) SleepUntil(clock_.Now() + kLeaderLeasePause);
  return std::nullopt;
}

absl::StatusOr<std::optional<LeaderLease::Held>> LeaderLease::Take(const std::stop_token& stop) {
  const absl::Time sent = clock_.Now();
  const absl::StatusOr<EtcdClient::Lease> lease = client_->GrantLease(options_.ttl, {.stop = stop});
  if (!lease.ok()) return lease.status();
  const std::string key = keys_.Leader();
  etcdserverpb::TxnRequest request;
  *request.add_compare() = CreatedAt(key, 0);
  *request.add_success() = Put(key, options_.address, lease->id);
  *request.add_failure() = Get(key);
  const auto txn = client_->Txn(request, {.stop = stop});
  int64_t revision = 0;
  if (txn.ok() && txn->succeeded()) {
    revision = txn->header().revision();
  } else if (txn.ok()) {
    const mvccpb::KeyValue* leader = OnlyKey(*txn, 0);
    // The key is this lease's if an unanswered try made the change.
    if (leader != nullptr && leader->lease() == lease->id) revision = leader->create_revision();
    if (leader != nullptr) SetLeader(leader->value());
  }
  if (revision == 0) {
    client_->RevokeLease(lease->id, {.deadline = kGiveUpWithin}).IgnoreError();
    if (!txn.ok()) return txn.status();
    return std::nullopt;
  }
  return Held{.lease = lease->id,
              .leadership = {.cluster = options_.cluster, .create_revision = revision},
              .timing = LeaseTiming(lease->ttl, sent)};
}

absl::Status LeaderLease::Hold(Held& held, const std::stop_token& stop) {
  absl::Status last;
  while (SleepUntil(std::min(held.timing.next_refresh(), held.timing.end()))) {
    if (held.timing.IsOver(clock_.Now())) {
      return absl::UnavailableError(
          absl::StrFormat("%s: the lease could not be refreshed in time%s%s", keys_.Leader(),
                          last.ok() ? "" : ": ", last.message()));
    }
    last = Refresh(held, stop);
    if (absl::IsNotFound(last) || absl::IsFailedPrecondition(last)) return last;
  }
  return absl::CancelledError("stopped");
}

absl::Status LeaderLease::Refresh(Held& held, const std::stop_token& stop) {
  const absl::Time sent = clock_.Now();
  const absl::StatusOr<absl::Duration> ttl =
      client_->KeepAlive(held.lease, {.deadline = held.timing.PatienceAt(sent), .stop = stop});
  const absl::Time now = clock_.Now();
  if (!ttl.ok()) {
    held.timing.Failed(now);
    return ttl.status();
  }
  // Too late: a coordinator that has stopped leading does not start again.
  if (held.timing.IsOver(now)) return absl::UnavailableError("its answer came too late");
  held.timing.Refreshed(*ttl, sent);
  {
    absl::MutexLock lock(&mutex_);
    end_ = held.timing.end();
  }
  const absl::Status key = CheckKey(held, stop);
  // The lease exists; the key may not.
  return absl::IsFailedPrecondition(key) ? key : absl::OkStatus();
}

absl::Status LeaderLease::CheckKey(const Held& held, const std::stop_token& stop) {
  const auto range = client_->Range(
      RangeOf(keys_.Leader()), {.deadline = held.timing.PatienceAt(clock_.Now()), .stop = stop});
  if (!range.ok()) return range.status();
  const mvccpb::KeyValue* leader = OnlyKey(*range);
  if (leader != nullptr && leader->create_revision() == held.leadership.create_revision) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrFormat("%s: was taken away: %s leads", keys_.Leader(),
                      leader == nullptr ? "nobody" : leader->value()));
}

}  // namespace strata::server
