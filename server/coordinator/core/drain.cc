// The part of CoordinatorCore that takes daemons out of service.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/log.h"
#include "server/coordinator/core/coordinator_core.h"

namespace strata::server {
namespace {

std::string NameOf(const Daemon& daemon) {
  const bool is_server = daemon.registration.role() == proto::SERVER;
  return absl::StrCat(is_server ? "server " : "worker ", daemon.registration.name());
}

// "job 3 (lenet), job 4 (moons)"
std::string NameJobs(const proto::DrainReply& reply) {
  constexpr int kNamesMax = 6;
  std::string text;
  for (int i = 0; i < reply.jobs_size(); ++i) {
    if (i == kNamesMax) return text + ", ...";
    absl::StrAppendFormat(&text, "%sjob %d (%s)", i == 0 ? "" : ", ", reply.jobs(i).job_id(),
                          reply.jobs(i).name());
  }
  return text;
}

}  // namespace

void CoordinatorCore::RestoreDraining(const std::vector<std::string>& daemons) {
  membership_.SetDraining({daemons.begin(), daemons.end()});
}

bool CoordinatorCore::IsTakenOut(const std::string& name) const {
  return membership_.IsDraining(name) && !membership_.StandsIn(name);
}

absl::Status CoordinatorCore::SaveDraining(std::set<std::string> names) {
  absl::Status saved = actions_->PersistDraining({names.begin(), names.end()});
  if (saved.ok()) membership_.SetDraining(std::move(names));
  return saved;
}

proto::DrainReply CoordinatorCore::TellDrain(const Daemon& daemon) const {
  const std::string& name = daemon.registration.name();
  proto::DrainReply reply;
  reply.set_role(daemon.registration.role());
  reply.set_draining(IsTakenOut(name));
  reply.set_drained(reply.draining() && jobs_.RunningOn(name).empty());
  if (membership_.StandsIn(name)) reply.set_note("it only stands in for workers that are lost");
  jobs_.TellDrain(name, &reply);
  const std::vector<const Daemon*> alive = membership_.Alive(daemon.registration.role());
  const bool others = std::any_of(alive.begin(), alive.end(), [&](const Daemon* other) {
    return other != &daemon && !membership_.IsDraining(other->registration.name());
  });
  if (!others && reply.draining()) {
    const bool is_server = daemon.registration.role() == proto::SERVER;
    reply.set_note(is_server ? "no other server is left: jobs that need one do not start"
                             : "no other worker is left: jobs wait until there is one");
  }
  return reply;
}

absl::Status CoordinatorCore::CheckOthersAreLeft(const Daemon& daemon) const {
  if (daemon.registration.role() != proto::SERVER) return absl::OkStatus();
  const std::vector<const Daemon*> alive = membership_.Alive(proto::SERVER);
  const bool others = std::any_of(alive.begin(), alive.end(), [&](const Daemon* other) {
    return other != &daemon && !membership_.IsDraining(other->registration.name());
  });
  proto::DrainReply reply;
  jobs_.TellDrain(daemon.registration.name(), &reply);
  if (others || reply.jobs().empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("%s cannot be drained: no other server is there to take what it has of %s",
                      NameOf(daemon), NameJobs(reply)));
}

void CoordinatorCore::OnLeaving(const std::string& daemon, absl::Time now) {
  const bool was_draining = IsTakenOut(daemon);
  membership_.SetLeaving(daemon);
  if (was_draining) return;
  LogInfo("%s is about to end, and is being drained", daemon);
  jobs_.LeaveDrained(now);
  jobs_.StartQueued(now);
}

absl::StatusOr<proto::DrainReply> CoordinatorCore::Drain(const proto::DrainRequest& request,
                                                         absl::Time now) {
  const std::string& name = request.daemon();
  const Daemon* const daemon = membership_.Find(name);
  std::set<std::string> draining = membership_.draining();
  if (daemon == nullptr && !draining.contains(name)) {
    return absl::NotFoundError(
        absl::StrFormat("no server or worker is called \"%s\" (see strata nodes)", name));
  }
  if (request.action() == proto::DrainRequest::UNDO) {
    if (draining.erase(name) == 0) {
      const char* const why = IsTakenOut(name) ? " is about to end: it was told to (--notice)"
                                               : " is not being drained";
      return absl::FailedPreconditionError(absl::StrCat(NameOf(*daemon), why));
    }
  } else if (request.action() == proto::DrainRequest::DRAIN && !draining.contains(name)) {
    if (absl::Status left = CheckOthersAreLeft(*daemon); !left.ok()) return left;
    draining.insert(name);
  }
  if (draining != membership_.draining()) {
    if (absl::Status saved = SaveDraining(std::move(draining)); !saved.ok()) return saved;
    LogInfo("%s is %s", name, IsTakenOut(name) ? "being drained" : "back in service");
    jobs_.LeaveDrained(now);
    jobs_.StartQueued(now);
  }
  if (daemon != nullptr) return TellDrain(*daemon);
  // It is out of service, and nobody has seen it since the coordinator started.
  proto::DrainReply reply;
  reply.set_draining(IsTakenOut(name));
  reply.set_drained(reply.draining());
  return reply;
}

}  // namespace strata::server
