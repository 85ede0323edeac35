#include "server/coordinator/service/doorkeeper.h"

#include <grpc/grpc_security_constants.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/keys/certificate.h"
#include "common/log.h"

namespace strata::server {

namespace {

// Returns all certificates that the peer has shown, its own first.
absl::StatusOr<std::vector<keys::Certificate>> ChainOf(const grpc::AuthContext& context) {
  std::vector<keys::Certificate> chain;
  for (const char* property :
       {GRPC_X509_PEM_CERT_PROPERTY_NAME, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME}) {
    for (const grpc::string_ref& text : context.FindPropertyValues(property)) {
      if (text.empty()) continue;
      const auto shown = keys::CertificatesFromPem(std::string(text.data(), text.size()));
      if (!shown.ok()) return shown.status();
      for (const keys::Certificate& one : *shown) {
        const bool again = !chain.empty() && one.fingerprint() == chain.front().fingerprint();
        if (!again) chain.push_back(one);
      }
    }
  }
  return chain;
}

bool IsPlain(const grpc::AuthContext& context) {
  const auto types = context.FindPropertyValues(GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME);
  return types.size() == 1 && types.front() == "insecure";
}

absl::StatusOr<Caller> Identify(const grpc::ServerContext& context, const Access& access) {
  const std::shared_ptr<const grpc::AuthContext> shown = context.auth_context();
  if (shown == nullptr) return absl::UnauthenticatedError("nothing is known of the caller");
  if (IsPlain(*shown)) return Caller{.kind = Caller::Kind::kOwner};
  const auto chain = ChainOf(*shown);
  if (!chain.ok()) return absl::UnauthenticatedError(chain.status().message());
  return access.Identify(*chain, absl::Now());
}

}  // namespace

absl::StatusOr<Guest> Doorkeeper::Greet(grpc::ServerContext* context, Call call) {
  absl::StatusOr<Caller> caller = Identify(*context, *access_);
  const absl::Status may = caller.ok() ? Allow(*caller, call) : caller.status();
  if (!may.ok()) {
    Refuse(caller.ok() ? *caller : Caller(), context->peer(), CallName(call), 0, may);
    return may;
  }
  Guest guest{*std::move(caller), context->peer()};
  if (guest.caller.kind != Caller::Kind::kMember) return guest;
  auto silent = silent_.Begin(CallerText(guest.caller), context);
  if (!silent.ok()) return silent.status();
  guest.silent = *std::move(silent);
  return guest;
}

absl::Status Doorkeeper::Seat(Guest* guest, Call call, Gate* gate) {
  guest->silent.reset();
  absl::StatusOr<Caller> now = access_->Anew(guest->caller, absl::Now());
  const absl::Status may = now.ok() ? Allow(*now, call) : now.status();
  if (!may.ok()) {
    Refuse(guest->caller, guest->peer, CallName(call), 0, may);
    return may;
  }
  guest->caller = *std::move(now);
  absl::StatusOr<Gate::Pass> pass = gate->Enter(guest->peer);
  if (!pass.ok()) return pass.status();
  guest->pass.emplace(*std::move(pass));
  return absl::OkStatus();
}

absl::StatusOr<Guest> Doorkeeper::LetIn(grpc::ServerContext* context, Call call, Gate* gate) {
  absl::StatusOr<Guest> guest = Greet(context, call);
  if (!guest.ok()) return guest;
  const absl::Status seated = Seat(&*guest, call, gate);
  return seated.ok() ? std::move(guest) : seated;
}

absl::Status Doorkeeper::MayNow(const Guest& guest, Call call, JobId job,
                                const std::optional<JobOwner>& owner) {
  const absl::StatusOr<Caller> now = access_->Anew(guest.caller, absl::Now());
  if (!now.ok()) {
    Refuse(guest.caller, guest.peer, CallName(call), job.value(), now.status());
    return now.status();
  }
  const absl::Status may =
      owner.has_value() ? AllowJob(*now, call, job, *owner) : AllowAbsentJob(*now, call, job);
  if (!may.ok()) {
    Refuse(*now, guest.peer, CallName(call), job.value(), may);
    return may;
  }
  // A caller who may know of all jobs was not refused anything.
  return owner.has_value() ? absl::OkStatus() : NoSuchJob(job);
}

void Doorkeeper::Refuse(const Caller& caller, const std::string& peer, const std::string& what,
                        uint32_t job, const absl::Status& why) {
  audit_->Write({.who = CallerText(caller),
                 .peer = peer,
                 .what = what,
                 .job = job,
                 .refused = true,
                 .detail = std::string(why.message())},
                absl::Now());
  const uint64_t refused = caller.is_user() ? ++refused_users_ : ++refused_;
  // Logs only at powers of two, in case there are very many.
  if ((refused & (refused - 1)) != 0) return;
  LogWarning("refused a call from %s: %s (%d refused)", peer, std::string(why.message()), refused);
}

void Doorkeeper::NoteRefused(const Caller& caller, const std::string& peer, const std::string& what,
                             const std::string& why) {
  audit_->Write(
      {.who = CallerText(caller), .peer = peer, .what = what, .refused = true, .detail = why},
      absl::Now());
}

void Doorkeeper::Note(const Caller& caller, const std::string& peer, const std::string& what,
                      uint32_t job, const std::string& detail) {
  audit_->Write(
      {.who = CallerText(caller), .peer = peer, .what = what, .job = job, .detail = detail},
      absl::Now());
}

grpc::Status ToGrpc(const absl::Status& status) {
  // gRPC and Abseil use the same numeric codes.
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

SilentCalls::Call::Call(SilentCalls* calls, std::string who, grpc::ServerContext* context)
    : calls_(calls), who_(std::move(who)), reach_(std::make_shared<Reach>()) {
  {
    absl::MutexLock lock(&reach_->mutex);
    reach_->context = context;
  }
  alarm_.Set(absl::ToChronoTime(absl::Now() + kRequestPatience), [reach = reach_](bool is_due) {
    if (!is_due) return;
    absl::MutexLock lock(&reach->mutex);
    if (reach->context != nullptr) reach->context->TryCancel();
  });
}

SilentCalls::Call::~Call() {
  {
    absl::MutexLock lock(&reach_->mutex);
    reach_->context = nullptr;
  }
  alarm_.Cancel();
  calls_->End(who_);
}

absl::StatusOr<std::unique_ptr<SilentCalls::Call>> SilentCalls::Begin(
    const std::string& who, grpc::ServerContext* context) {
  {
    absl::MutexLock lock(&mutex_);
    uint32_t& open = open_[who];
    if (open == kSilentCallsMax) {
      return absl::ResourceExhaustedError(absl::StrFormat(
          "%s has %d calls open that do not say what they ask for", who, kSilentCallsMax));
    }
    ++open;
  }
  return std::make_unique<Call>(this, who, context);
}

void SilentCalls::End(const std::string& who) {
  absl::MutexLock lock(&mutex_);
  const auto it = open_.find(who);
  if (--it->second == 0) open_.erase(it);
}

}  // namespace strata::server
