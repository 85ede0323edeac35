#include "server/coordinator/access/call_table.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/counted.h"
#include "server/coordinator/access/policy.h"

namespace strata::server {
namespace {

using proto::UserPolicy;

// The name of a call in the log, and in "user ada may not ...".
struct CallWords {
  const char* name;
  const char* text;
};
CallWords WordsOf(Call call) {
  switch (call) {
    case Call::kSession:
      return {"session", "be a server or worker"};
    case Call::kSubmit:
      return {"submit", "submit jobs"};
    case Call::kSubmitProgram:
      return {"submit-program", "submit jobs with programs"};
    case Call::kCancel:
      return {"cancel", "cancel this job"};
    case Call::kListJobs:
      return {"list-jobs", "look at jobs"};
    case Call::kGetJob:
      return {"get-job", "look at jobs"};
    case Call::kListNodes:
      return {"list-nodes", "look at nodes"};
    case Call::kFollow:
      return {"follow", "look at jobs"};
    case Call::kGetTrace:
      return {"get-trace", "look at jobs"};
    case Call::kOfferLogs:
      return {"offer-logs", "be a worker"};
    case Call::kReadLogs:
      return {"read-logs", "look at this job's logs"};
    case Call::kDrain:
      return {"drain", "take servers and workers out of service"};
    case Call::kJoin:
      return {"join", "join"};
    case Call::kRenew:
      return {"renew", "renew a certificate"};
    case Call::kMakeToken:
      return {"make-token", "make tokens"};
    case Call::kListKeys:
      return {"list-keys", "list keys"};
    case Call::kRevoke:
      return {"revoke", "revoke keys"};
  }
  return {"", ""};
}

// Returns the least role of a user that may make the call, at least about the user's own jobs.
UserRole RoleFor(Call call) {
  switch (call) {
    case Call::kSession:
    case Call::kOfferLogs:
    case Call::kJoin:
    case Call::kRenew:
      return UserPolicy::NONE;
    case Call::kListJobs:
    case Call::kGetJob:
    case Call::kListNodes:
    case Call::kFollow:
    case Call::kGetTrace:
      return UserPolicy::VIEW;
    case Call::kSubmit:
    case Call::kCancel:
    case Call::kReadLogs:
      return UserPolicy::SUBMIT;
    case Call::kSubmitProgram:
      return UserPolicy::RUN_PROGRAMS;
    case Call::kDrain:
      return UserPolicy::OPERATE;
    case Call::kMakeToken:
    case Call::kListKeys:
    case Call::kRevoke:
      return UserPolicy::ADMIN;
  }
  return UserPolicy::ADMIN;
}

// Returns whether only daemons make the call.
bool IsDaemons(Call call) { return call == Call::kSession || call == Call::kOfferLogs; }

// Returns whether only the job's owner and the cluster's operators may make the call.
bool IsOwners(Call call) { return call == Call::kCancel || call == Call::kReadLogs; }

Verdict YesIf(bool may) { return may ? Verdict::kYes : Verdict::kNo; }

Verdict DecideForUser(UserRole role, Call call, std::optional<JobSide> job) {
  if (IsDaemons(call)) return Verdict::kNo;
  if (call == Call::kJoin || call == Call::kRenew) return Verdict::kYes;
  if (role == UserPolicy::NONE) return Verdict::kNo;
  if (role >= UserPolicy::OPERATE || !job.has_value()) return YesIf(role >= RoleFor(call));
  // Users who have left a namespace no longer see their own jobs there, either.
  if (!job->same_namespace) return Verdict::kHidden;
  return YesIf(role >= RoleFor(call) && (!IsOwners(call) || job->own));
}

std::string WhyNot(const Caller& caller, Call call) {
  const std::string who = CallerText(caller);
  if (caller.is_user() && caller.rights.role == UserPolicy::NONE) {
    return absl::StrCat(who, " may do nothing here: the cluster's policy gives no role to them");
  }
  const std::string why = absl::StrCat(who, " may not ", WordsOf(call).text);
  if (!caller.is_user()) return absl::StrCat(why, ": use a user's keys (`strata keys join`)");
  if (IsDaemons(call)) {
    return absl::StrCat(why, ": use a daemon's keys (--join-file with a token of `strata keys ",
                        "token`)");
  }
  const std::string role = UserPolicy::Role_Name(caller.rights.role);
  return absl::StrCat(why, ": their role is ", role);
}

absl::Status AllowSide(const Caller& caller, Call call, JobId job, const JobSide& side) {
  const Verdict verdict = Decide(caller, call, side);
  if (verdict == Verdict::kYes) return absl::OkStatus();
  if (verdict == Verdict::kHidden) return NoSuchJob(job);
  const absl::Status at_all = Allow(caller, call);
  if (!at_all.ok()) return at_all;
  return absl::PermissionDeniedError(
      absl::StrCat(WhyNot(caller, call), ", and job ", job.value(), " is not their own"));
}

struct NamedPath {
  const char* field;
  std::string path;
};

// Returns everything that a job makes daemons read, write, create or run. The program's arguments
// and environment are excluded: users who may run programs reach whatever the workers' user
// reaches.
std::vector<NamedPath> PathsOf(const proto::SubmitRequest& request) {
  const proto::Job& job = request.job();
  std::vector<NamedPath> paths;
  // The default is in the worker's folder of runs, in a folder of the job's own.
  if (!job.run_dir().empty()) paths.push_back({"run_dir", job.run_dir()});
  if (job.has_checkpoint()) paths.push_back({"checkpoint.dir", job.checkpoint().dir()});
  if (job.has_program()) paths.push_back({"program.path", job.program().path()});
  if (job.data().has_idx()) paths.push_back({"data.idx.dir", job.data().idx().dir()});
  if (job.data().has_cifar10()) paths.push_back({"data.cifar10.dir", job.data().cifar10().dir()});
  if (!request.resume().dir().empty()) paths.push_back({"resume", request.resume().dir()});
  return paths;
}

absl::Status CheckPath(const Caller& caller, const NamedPath& named) {
  const std::vector<std::string>& prefixes = caller.rights.path_prefixes;
  const absl::StatusOr<std::string> path = NormalPath(named.path);
  if (!path.ok()) {
    return absl::PermissionDeniedError(
        absl::StrCat(named.field, ": \"", named.path, "\": ", path.status().message(), ", and ",
                     CallerText(caller), " has path_prefixes in the cluster's policy"));
  }
  const auto holds = [&](const std::string& prefix) { return LiesBelow(*path, prefix); };
  if (std::any_of(prefixes.begin(), prefixes.end(), holds)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(named.field, ": \"", named.path, "\": ", CallerText(caller),
                   " may name paths below ", absl::StrJoin(prefixes, ", "), " only"));
}

}  // namespace

Verdict Decide(const Caller& caller, Call call, std::optional<JobSide> job) {
  if (caller.kind == Caller::Kind::kOwner) return Verdict::kYes;
  if (caller.kind == Caller::Kind::kStranger) {
    return call == Call::kJoin ? Verdict::kYes : Verdict::kStranger;  // the token decides
  }
  switch (caller.identity.role) {
    case keys::Role::kUser:
      return DecideForUser(caller.rights.role, call, job);
    case keys::Role::kServer:
    case keys::Role::kWorker:
      return YesIf(IsDaemons(call) || call == Call::kJoin || call == Call::kRenew);
    case keys::Role::kCoordinator:
      return YesIf(call == Call::kJoin);
  }
  return Verdict::kNo;
}

JobSide SideOf(const Caller& caller, const JobOwner& owner) {
  if (!caller.is_user()) return {};
  return {.own = owner.user == caller.identity.name,
          .same_namespace = owner.tenant == caller.rights.tenant};
}

Submitter SubmitterOf(const Caller& caller) {
  if (!caller.is_user()) return {};
  return {.owner = {caller.identity.name, caller.rights.tenant},
          .sees_all = caller.rights.role >= UserPolicy::OPERATE};
}

absl::Status Allow(const Caller& caller, Call call) {
  const Verdict verdict = Decide(caller, call, std::nullopt);
  if (verdict == Verdict::kYes) return absl::OkStatus();
  if (verdict == Verdict::kNo) return absl::PermissionDeniedError(WhyNot(caller, call));
  return absl::UnauthenticatedError(
      "it takes only those who show a certificate of its cluster: `strata keys join` with a token "
      "gets one");
}

absl::Status AllowJob(const Caller& caller, Call call, JobId job, const JobOwner& owner) {
  return AllowSide(caller, call, job, SideOf(caller, owner));
}

absl::Status AllowAbsentJob(const Caller& caller, Call call, JobId job) {
  return AllowSide(caller, call, job, JobSide());
}

absl::Status AllowRegistration(const Caller& caller, const proto::Register& registration) {
  const absl::Status may = Allow(caller, Call::kSession);
  if (!may.ok() || caller.kind != Caller::Kind::kMember) return may;
  const bool is_server = caller.identity.role == keys::Role::kServer;
  const bool same_role = registration.role() == (is_server ? proto::SERVER : proto::WORKER);
  if (same_role && registration.name() == caller.identity.name) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "its certificate is that of ", CallerText(caller), ", not of a ",
      registration.role() == proto::SERVER ? "server" : "worker", " ", registration.name(),
      ": say --name ", caller.identity.name, ", or another --keys"));
}

absl::Status AllowLogsOffer(const Caller& caller, const std::string& worker) {
  const absl::Status may = Allow(caller, Call::kOfferLogs);
  if (!may.ok() || caller.kind != Caller::Kind::kMember) return may;
  if (caller.identity.role == keys::Role::kWorker && caller.identity.name == worker) return may;
  return absl::PermissionDeniedError(absl::StrCat("its certificate is that of ", CallerText(caller),
                                                  ", which shows no logs of a worker ", worker));
}

std::string CallName(Call call) { return WordsOf(call).name; }

std::string CallerText(const Caller& caller) {
  if (caller.kind == Caller::Kind::kMember) return keys::IdentityText(caller.identity);
  return caller.kind == Caller::Kind::kOwner ? "the coordinator's user" : "a stranger";
}

absl::Status CheckSubmission(const Caller& caller, const proto::SubmitRequest& request) {
  if (request.job().has_program()) {
    if (absl::Status may = Allow(caller, Call::kSubmitProgram); !may.ok()) return may;
  }
  if (!caller.is_user()) return absl::OkStatus();
  const uint32_t ranks = std::max(request.job().ranks(), 1u), slots = caller.rights.slots;
  if (slots != 0 && ranks > slots) {
    return absl::PermissionDeniedError(absl::StrCat("ranks: ", ranks, ", and ", CallerText(caller),
                                                    " may have ", Counted(slots, "rank"),
                                                    " at once"));
  }
  if (caller.rights.path_prefixes.empty()) return absl::OkStatus();
  for (const NamedPath& named : PathsOf(request)) {
    if (absl::Status may = CheckPath(caller, named); !may.ok()) return may;
  }
  return absl::OkStatus();
}

}  // namespace strata::server
