#include "common/control/channel.h"

#include <grpc/support/log.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/control/dial.h"
#include "common/keys/authority.h"
#include "common/keys/identity.h"
#include "common/log.h"
#include "common/os/unix_socket.h"

namespace strata::control {
namespace {

constexpr int kReconnectMsMin = 50;
constexpr int kReconnectMsMax = 1000;
constexpr int kKeepaliveMs = 5000;
// Interval of checks whether the peer was refused; it grows, as many may wait on one host.
constexpr absl::Duration kLookMin = absl::Milliseconds(20);
constexpr absl::Duration kLookMax = absl::Milliseconds(500);

grpc::ChannelArguments CommonArguments(absl::Duration silence) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(silence)));
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  arguments.SetMaxSendMessageSize(kMessageBytesMax);
  return arguments;
}

// Unused by TLS but required: otherwise gRPC would read the system's authorities.
absl::StatusOr<std::string> NoRoots() {
  const auto made = keys::Authority::Make("none", absl::Now(), absl::Hours(1));
  if (!made.ok()) return made.status();
  return made->RootsPem();
}

struct Secured {
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  std::shared_ptr<const PeerCheck> check;
};

absl::StatusOr<Secured> Secure(const Credentials& credentials) {
  grpc::experimental::TlsChannelCredentialsOptions options;
  std::vector<grpc::experimental::IdentityKeyCertPair> own;
  absl::StatusOr<std::string> roots = std::string();
  std::shared_ptr<PeerCheck> check;
  if (credentials.kind() == Credentials::Kind::kJoining) {
    check = std::make_shared<PeerCheck>(credentials.authority());
    roots = NoRoots();
    if (!roots.ok()) return roots.status();
  } else {
    const absl::StatusOr<keys::KeyFile> file = credentials.Keys();
    if (!file.ok()) return file.status();
    check = std::make_shared<PeerCheck>(file->trust());
    roots = file->RootsPem();
    own.push_back({file->key.ToPem(), file->ChainPem()});
    options.watch_identity_key_cert_pairs();
  }
  options.set_certificate_provider(
      std::make_shared<grpc::experimental::StaticDataCertificateProvider>(*roots, own));
  options.watch_root_certs();
  // PeerCheck does all verification.
  options.set_verify_server_certs(false);
  options.set_check_call_host(false);
  options.set_certificate_verifier(VerifierOf(check));
  return Secured{grpc::experimental::TlsCredentials(options), check};
}

}  // namespace

void PrepareGrpc() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  gpr_set_log_function(
      [](gpr_log_func_args* said) { LogDebug("gRPC: %s", std::string(said->message)); });
}

absl::Status Line::Await(absl::Time until) const {
  absl::Duration pause = kLookMin;
  while (true) {
    const absl::Time look = std::min(until, absl::Now() + pause);
    pause = std::min(pause * 3 / 2, kLookMax);
    if (channel->WaitForConnected(absl::ToChronoTime(look))) return absl::OkStatus();
    const absl::Status peer = check == nullptr ? absl::OkStatus() : check->last();
    if (!peer.ok()) return peer;
    if (absl::Now() >= until) return absl::UnavailableError("");
  }
}

absl::StatusOr<Line> LineTo(const std::string& address, const Credentials& credentials,
                            const LineLimits& limits) {
  Secured secured{grpc::InsecureChannelCredentials(), nullptr};
  if (credentials.kind() == Credentials::Kind::kNone) {
    return Refused(
        address,
        "there are no keys for it: with a token of its operator `strata keys join` gets a "
        "user some, and --join-file a daemon; --insecure does without, where everybody on "
        "the network may be trusted");
  }
  if (credentials.kind() != Credentials::Kind::kInsecure) {
    absl::StatusOr<Secured> made = Secure(credentials);
    if (!made.ok()) return Refused(address, std::string(made.status().message()));
    secured = *std::move(made);
  }
  grpc::ChannelArguments arguments = CommonArguments(limits.silence);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMsMin);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(limits.connect)));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMsMax);
  return Line{grpc::CreateCustomChannel(address, secured.credentials, arguments), secured.check};
}

std::shared_ptr<grpc::Channel> ChannelOn(UniqueFd fd) {
  return grpc::CreateCustomInsecureChannelFromFd("coordinator", fd.Release(),
                                                 CommonArguments(kSilenceOfCalls));
}

absl::Status FromGrpc(const grpc::Status& status) {
  // gRPC and Abseil use the same numeric codes.
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

absl::Status Unreachable(const std::string& address, const std::string& tried_for,
                         const std::string& why) {
  return absl::UnavailableError(
      absl::StrFormat("coordinator at %s cannot be reached (tried for %s)%s%s", address, tried_for,
                      why.empty() ? "" : ": ", why));
}

absl::Status Refused(const std::string& address, const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat("coordinator at ", address, ": ", why));
}

namespace {

class Verifier final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  explicit Verifier(std::shared_ptr<PeerCheck> check) : check_(std::move(check)) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)>, grpc::Status* answer) override {
    const grpc::string_ref text = request->peer_cert_full_chain();
    const auto chain = keys::CertificatesFromPem(std::string(text.data(), text.size()));
    const absl::Status good =
        check_->Check(chain.ok() ? *chain : std::vector<keys::Certificate>(), absl::Now());
    if (!good.ok()) {
      *answer = grpc::Status(grpc::StatusCode::UNAUTHENTICATED, std::string(good.message()));
    }
    return true;  // at once
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

 private:
  const std::shared_ptr<PeerCheck> check_;
};

}  // namespace

absl::Status PeerCheck::Judge(const std::vector<keys::Certificate>& chain, absl::Time now) const {
  if (chain.empty()) {
    return absl::UnauthenticatedError("what answers there shows no certificate that can be read");
  }
  keys::Trust trust = trust_;
  if (!authority_.empty()) {
    for (const keys::Certificate& shown : chain) {
      if (shown.fingerprint() == authority_) trust.roots.push_back(shown);
    }
    if (trust.roots.empty()) {
      return absl::UnauthenticatedError(
          "what answers there is not of the cluster that the token is of: the token is for another "
          "coordinator, or somebody is in between");
    }
    const auto identity = chain.front().identity();
    if (identity.ok()) trust.cluster = identity->cluster;
  }
  const absl::StatusOr<keys::Identity> identity = keys::Verify(chain, trust, now);
  if (!identity.ok()) {
    return absl::UnauthenticatedError(
        absl::StrCat("what answers there cannot be trusted: ", identity.status().message()));
  }
  if (identity->role != keys::Role::kCoordinator) {
    return absl::UnauthenticatedError(
        absl::StrCat("what answers there is no coordinator but ", keys::IdentityText(*identity)));
  }
  return absl::OkStatus();
}

absl::Status PeerCheck::Check(const std::vector<keys::Certificate>& chain, absl::Time now) {
  absl::Status status = Judge(chain, now);
  absl::MutexLock lock(&mutex_);
  last_ = status;
  return status;
}

absl::Status PeerCheck::last() const {
  absl::MutexLock lock(&mutex_);
  return last_;
}

std::shared_ptr<grpc::experimental::CertificateVerifier> VerifierOf(
    std::shared_ptr<PeerCheck> check) {
  return grpc::experimental::ExternalCertificateVerifier::Create<Verifier>(std::move(check));
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> ChannelTo(const std::string& coordinator,
                                                         const AddressRound& round,
                                                         const Credentials& credentials,
                                                         absl::Time until) {
  if (const std::optional<std::string> path = UnixPath(coordinator)) {
    absl::StatusOr<UniqueFd> fd = DialUnix(*path);
    while (absl::IsUnavailable(fd.status()) && absl::Now() < until) {
      absl::SleepFor(std::min(kPauseBetweenRounds, until - absl::Now()));
      fd = DialUnix(*path);
    }
    if (fd.ok()) return ChannelOn(*std::move(fd));
    return fd.status();
  }
  const std::string& address = round.current();
  if (!round.is_one()) {
    const absl::StatusOr<UniqueFd> probe = DialTcp(address, kTryOfSeveral, kTryOfSeveral);
    if (!probe.ok()) return probe.status();
    until = std::min(until, absl::Now() + kTryOfSeveral);
  }
  const absl::StatusOr<Line> line = LineTo(address, credentials);
  if (!line.ok()) return line.status();
  const absl::Status up = line->Await(until);
  if (up.ok()) return line->channel;
  if (absl::IsUnavailable(up)) return absl::UnavailableError(round.is_one() ? "" : "no answer");
  return Refused(address, std::string(up.message()));
}

}  // namespace strata::control
