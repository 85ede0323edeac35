#include "server/coordinator/service/etcd_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/clock.h"
#include "common/keys/private_file.h"
#include "common/os/atomic_file.h"
#include "common/os/limits.h"
#include "proto/rpc.grpc.pb.h"

namespace strata::server {
namespace {

constexpr int kReconnectMsMin = 100;
constexpr int kReconnectMsMax = 1000;
constexpr int kConnectMs = 2000;
// etcd ends connections that ping more often than every 5 s.
constexpr int kPingMs = 10'000;
constexpr absl::Duration kPause = absl::Milliseconds(100);  // between two rounds
constexpr absl::Duration kConnectLook = absl::Milliseconds(50);
constexpr absl::Duration kLook = absl::Milliseconds(20);  // at a stop token
// The least time for a try; none starts later before the deadline.
constexpr absl::Duration kTryMin = absl::Milliseconds(10);

grpc::ChannelArguments Arguments() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMsMin);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMsMax);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingMs);
  arguments.SetMaxReceiveMessageSize(kControlMessageBytesMax);
  arguments.SetMaxSendMessageSize(kControlMessageBytesMax);
  return arguments;
}

template <typename IsStopped>
void Pause(absl::Duration whole, const IsStopped& is_stopped) {
  for (absl::Duration left = whole; left > absl::ZeroDuration(); left -= kLook) {
    if (is_stopped()) return;
    absl::SleepFor(std::min(kLook, left));
  }
}

// After a failure gRPC fails calls at once until it is connected again, and it connects only while
// somebody waits.
void LetConnect(grpc::Channel& channel, absl::Duration at_most) {
  if (channel.GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY) return;
  channel.WaitForConnected(absl::ToChronoTime(absl::Now() + at_most));
}

// Extracts "connection refused" from gRPC's text.
std::string Reason(const grpc::Status& status, absl::Duration waited) {
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return absl::StrCat("no answer within ",
                        absl::FormatDuration(absl::Floor(waited + kTryMin / 2, kTryMin)));
  }
  std::string text = status.error_message();
  for (const char* before : {"Failed to connect to remote host: ", "last error: "}) {
    const size_t at = text.rfind(before);
    if (at == std::string::npos) continue;
    text = text.substr(at + std::string(before).size());
    break;
  }
  text = text.substr(0, text.find('\n'));
  return absl::StartsWith(text, "Connection") ? absl::AsciiStrToLower(text) : text;
}

bool IsForTheNext(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
}

absl::Status Refusal(const std::string& member, const grpc::Status& status) {
  std::string text = absl::StrCat("etcd at ", member, ": ", status.error_message());
  if (absl::StrContains(text, "database space exceeded")) {
    absl::StrAppend(&text,
                    ": compact and defragment it, disarm its alarm, and give it "
                    "--auto-compaction-retention");
  }
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    absl::StrAppend(&text, ": is that an etcd of version 3.4 or later?");
  }
  // gRPC and Abseil use the same numeric codes.
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), text);
}

// Sends one message and receives one over a stream.
grpc::Status AskOnce(etcdserverpb::Lease::Stub& stub, grpc::ClientContext* context,
                     const etcdserverpb::LeaseKeepAliveRequest& request,
                     etcdserverpb::LeaseKeepAliveResponse* reply) {
  auto stream = stub.LeaseKeepAlive(context);
  const bool has_answered = stream->Write(request) && stream->Read(reply);
  if (has_answered) context->TryCancel();
  const grpc::Status status = stream->Finish();
  if (has_answered) return grpc::Status::OK;
  if (!status.ok()) return status;
  return {grpc::StatusCode::UNAVAILABLE, "the stream ended without an answer"};
}

bool IsHostAndPort(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  for (const char c : text) {
    if (!absl::ascii_isalnum(c) && !absl::StrContains(".-_:[]", c)) return false;
  }
  const std::string port = text.substr(colon + 1);
  uint32_t number = 0;
  return absl::ascii_isdigit(port.empty() ? ' ' : port[0]) && absl::SimpleAtoi(port, &number) &&
         number >= 1 && number <= 65535;
}

constexpr size_t kKeyBytesMax = 64 << 10, kCertificatesBytesMax = 4 << 20;
constexpr char kCertificate[] = "-----BEGIN CERTIFICATE-----";

absl::StatusOr<std::string> ReadCertificates(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path, kCertificatesBytesMax);
  if (text.ok() && !absl::StrContains(*text, kCertificate)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": has no certificate: etcd wants one in PEM (", kCertificate, ")"));
  }
  return text;
}

}  // namespace

struct EtcdClient::Member {
  Member(const std::string& name, std::shared_ptr<grpc::Channel> to)
      : endpoint(name), channel(to), kv(to), watch(to), lease(to) {}

  const std::string endpoint;
  const std::shared_ptr<grpc::Channel> channel;
  etcdserverpb::KV::Stub kv;
  etcdserverpb::Watch::Stub watch;
  etcdserverpb::Lease::Stub lease;
};

absl::StatusOr<std::unique_ptr<EtcdClient>> EtcdClient::Open(const Options& options) {
  const absl::StatusOr<std::vector<std::string>> endpoints = ParseEndpoints(options.endpoints);
  if (!endpoints.ok()) return endpoints.status();
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  const EtcdTls& tls = options.tls;
  if (!tls.ca_file.empty() || !tls.cert_file.empty() || !tls.key_file.empty()) {
    const absl::StatusOr<EtcdTlsContent> content = ReadEtcdTls(tls);
    if (!content.ok()) return content.status();
    credentials = grpc::SslCredentials({content->ca, content->key, content->cert});
  }
  std::vector<std::unique_ptr<Member>> members;
  for (const std::string& endpoint : *endpoints) {
    members.push_back(std::make_unique<Member>(
        endpoint, grpc::CreateCustomChannel(endpoint, credentials, Arguments())));
  }
  return std::unique_ptr<EtcdClient>(new EtcdClient(std::move(members),
                                                    "etcd at " + absl::StrJoin(*endpoints, ","),
                                                    options.deadline, options.stop));
}

EtcdClient::EtcdClient(std::vector<std::unique_ptr<Member>> members, std::string name,
                       absl::Duration deadline, std::stop_token stop)
    : members_(std::move(members)),
      name_(std::move(name)),
      deadline_(deadline),
      stop_(std::move(stop)) {}

EtcdClient::~EtcdClient() = default;

absl::Status EtcdClient::Call(const EtcdPatience& patience, const Attempt& attempt) {
  const auto is_stopped = [&] { return patience.stop.stop_requested() || stop_.stop_requested(); };
  const RealClock clock;
  const absl::Time until = clock.Now() + std::min(deadline_, patience.deadline);
  std::map<size_t, std::string> reasons;  // each member's first error
  while (true) {
    for (size_t left = members_.size(); left > 0; --left) {
      const size_t at = current_.load() % members_.size();
      Member& member = *members_[at];
      // The others get the time that early failures have left.
      const absl::Duration share = std::max(kTryMin, (until - clock.Now()) / left);
      grpc::ClientContext context;
      context.set_deadline(absl::ToChronoTime(absl::Now() + share));
      LetConnect(*member.channel, std::min(kConnectLook, share / 4));
      grpc::Status status;
      {
        const std::stop_callback cancel(patience.stop, [&] { context.TryCancel(); });
        const std::stop_callback cancel_all(stop_, [&] { context.TryCancel(); });
        status = attempt(member, &context);
      }
      if (status.ok()) return absl::OkStatus();
      if (is_stopped()) return absl::CancelledError(name_ + ": stopped");
      if (!IsForTheNext(status)) return Refusal(member.endpoint, status);
      reasons.emplace(at, absl::StrCat(member.endpoint, ": ", Reason(status, share)));
      size_t expected = at;  // another thread may have advanced it already
      current_.compare_exchange_strong(expected, (at + 1) % members_.size());
      if (clock.Now() + kTryMin > until) break;
    }
    if (clock.Now() + kPause + kTryMin > until) break;
    Pause(kPause, is_stopped);
  }
  return absl::UnavailableError(
      absl::StrFormat("%s does not answer: %s", name_,
                      absl::StrJoin(reasons, "; ", [](std::string* out, const auto& reason) {
                        absl::StrAppend(out, reason.second);
                      })));
}

absl::StatusOr<etcdserverpb::RangeResponse> EtcdClient::Range(
    const etcdserverpb::RangeRequest& request, const EtcdPatience& patience) {
  etcdserverpb::RangeResponse reply;
  const absl::Status status = Call(patience, [&](Member& member, grpc::ClientContext* context) {
    return member.kv.Range(context, request, &reply);
  });
  if (!status.ok()) return status;
  return reply;
}

absl::StatusOr<etcdserverpb::TxnResponse> EtcdClient::Txn(const etcdserverpb::TxnRequest& request,
                                                          const EtcdPatience& patience) {
  etcdserverpb::TxnResponse reply;
  const absl::Status status = Call(patience, [&](Member& member, grpc::ClientContext* context) {
    return member.kv.Txn(context, request, &reply);
  });
  if (!status.ok()) return status;
  return reply;
}

absl::StatusOr<EtcdClient::Lease> EtcdClient::GrantLease(absl::Duration ttl,
                                                         const EtcdPatience& patience) {
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl(absl::ToInt64Seconds(absl::Ceil(ttl, absl::Seconds(1))));
  etcdserverpb::LeaseGrantResponse reply;
  const absl::Status status = Call(patience, [&](Member& member, grpc::ClientContext* context) {
    return member.lease.LeaseGrant(context, request, &reply);
  });
  if (!status.ok()) return status;
  if (!reply.error().empty()) return absl::InternalError(absl::StrCat(name_, ": ", reply.error()));
  return Lease{reply.id(), absl::Seconds(reply.ttl())};
}

absl::StatusOr<absl::Duration> EtcdClient::KeepAlive(int64_t lease, const EtcdPatience& patience) {
  etcdserverpb::LeaseKeepAliveRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseKeepAliveResponse reply;
  const absl::Status status = Call(patience, [&](Member& member, grpc::ClientContext* context) {
    return AskOnce(member.lease, context, request, &reply);
  });
  if (!status.ok()) return status;
  if (reply.ttl() <= 0) {
    return absl::NotFoundError(absl::StrFormat("%s: lease %016x has ended", name_, lease));
  }
  return absl::Seconds(reply.ttl());
}

absl::Status EtcdClient::RevokeLease(int64_t lease, const EtcdPatience& patience) {
  etcdserverpb::LeaseRevokeRequest request;
  request.set_id(lease);
  return Call(patience, [&](Member& member, grpc::ClientContext* context) {
    etcdserverpb::LeaseRevokeResponse reply;
    return member.lease.LeaseRevoke(context, request, &reply);
  });
}

absl::Status EtcdClient::AwaitDeletion(const std::string& key, int64_t revision,
                                       const EtcdPatience& patience) {
  etcdserverpb::WatchRequest request;
  etcdserverpb::WatchCreateRequest* create = request.mutable_create_request();
  create->set_key(key);
  create->set_start_revision(revision + 1);
  create->add_filters(etcdserverpb::WatchCreateRequest::NOPUT);
  Member& member = *members_[current_.load() % members_.size()];
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + patience.deadline));
  const std::stop_callback cancel(patience.stop, [&] { context.TryCancel(); });
  const std::stop_callback cancel_all(stop_, [&] { context.TryCancel(); });
  auto stream = member.watch.Watch(&context);
  etcdserverpb::WatchResponse reply;
  bool may_have_gone = false;
  if (stream->Write(request)) {
    while (!may_have_gone && stream->Read(&reply)) {
      may_have_gone = reply.events_size() > 0 || reply.canceled();
    }
  }
  if (may_have_gone) context.TryCancel();
  const grpc::Status status = stream->Finish();
  if (may_have_gone) return absl::OkStatus();
  if (patience.stop.stop_requested() || stop_.stop_requested()) {
    return absl::CancelledError(name_ + ": stopped");
  }
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return absl::DeadlineExceededError(name_ + ": " + key + " is still there");
  }
  return Refusal(member.endpoint, status);
}

absl::StatusOr<std::vector<std::string>> ParseEndpoints(const std::string& text) {
  std::vector<std::string> endpoints = absl::StrSplit(text, ',');
  for (std::string& endpoint : endpoints) {
    endpoint = std::string(absl::StripAsciiWhitespace(endpoint));
    if (absl::StrContains(endpoint, "://")) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "etcd endpoint \"%s\": write HOST:PORT without a scheme; files of keys ask for TLS",
          endpoint));
    }
    if (!IsHostAndPort(endpoint)) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "etcd endpoint \"%s\": is no HOST:PORT; write HOST:PORT,HOST:PORT", endpoint));
    }
  }
  return endpoints;
}

absl::StatusOr<EtcdTlsContent> ReadEtcdTls(const EtcdTls& tls) {
  if (tls.cert_file.empty() != tls.key_file.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(tls.cert_file, tls.key_file,
                     ": etcd wants a certificate and its key: name both files or neither"));
  }
  if (tls.ca_file.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        tls.cert_file, ": name the file of the authority that signed etcd's certificates, too"));
  }
  EtcdTlsContent content;
  absl::StatusOr<std::string> ca = ReadCertificates(tls.ca_file);
  if (!ca.ok()) return ca.status();
  content.ca = *std::move(ca);
  if (tls.cert_file.empty()) return content;
  absl::StatusOr<std::string> cert = ReadCertificates(tls.cert_file);
  if (!cert.ok()) return cert.status();
  content.cert = *std::move(cert);
  absl::StatusOr<std::string> key = keys::ReadPrivateFile(tls.key_file, kKeyBytesMax);
  if (!key.ok()) return key.status();
  if (!absl::StrContains(*key, "PRIVATE KEY-----") || absl::StrContains(*key, "ENCRYPTED")) {
    return absl::InvalidArgumentError(
        absl::StrCat(tls.key_file, ": has no private key in PEM without a password"));
  }
  content.key = *std::move(key);
  return content;
}

}  // namespace strata::server
