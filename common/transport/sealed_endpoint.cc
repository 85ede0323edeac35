#include "common/transport/sealed_endpoint.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/require.h"
#include "common/wire/region_reference.h"

namespace strata::transport {
namespace {

// While frames wait for room in a peer's queue.
constexpr absl::Duration kRetryInterval = absl::Milliseconds(2);

absl::Span<const std::byte> SpanOf(const Bytes& bytes) { return {bytes.data(), bytes.size()}; }

// Refusals may be sent to peers that have proved nothing.
bool IsRefusal(wire::Op op) { return op == wire::Op::kError || op == wire::Op::kRetry; }

wire::Frame FlightOf(JobId job, std::string text) {
  const auto bytes = std::make_shared<std::string>(std::move(text));
  wire::Frame frame;
  frame.header.op = wire::Op::kHandshake;
  frame.header.job = job.value();
  frame.payload = Bytes(bytes, reinterpret_cast<const std::byte*>(bytes->data()), bytes->size());
  return frame;
}

}  // namespace

SealedEndpoint::Job::Job(JobId id, const seal::JobKeys& job_keys)
    : job(id),
      keys(job_keys),
      identity(seal::IdentityOf(id.value(), job_keys.attempt)),
      connection_secret(
          seal::ConnectionSecret(job_keys.secret, job_keys.attempt, job_keys.own_address)),
      payloads(job_keys.protection, job_keys.secret) {}

SealedEndpoint::SealedEndpoint(std::unique_ptr<Endpoint> inner, Unsealed takes, size_t waiting_max)
    : inner_(std::move(inner)), takes_(takes), waiting_max_(waiting_max) {}

absl::Status SealedEndpoint::Protect(JobId job, const seal::JobKeys& keys) {
  const auto known = jobs_.find(job);
  const bool is_same = known != jobs_.end() && known->second->keys == keys;
  if (!is_same) jobs_[job] = std::make_shared<Job>(job, keys);
  return absl::OkStatus();
}

absl::StatusOr<int> SealedEndpoint::Listen(const std::string& address) {
  return inner_->Listen(address);
}

absl::StatusOr<ConnectionId> SealedEndpoint::Connect(const std::string& address) {
  if (jobs_.empty()) {
    if (takes_ == Unsealed::kOfOtherJobs) return inner_->Connect(address);
    return absl::InvalidArgumentError(absl::StrCat(address, ": no job's secret is known"));
  }
  if (jobs_.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(address, ": of which of the jobs here?"));
  }
  return ConnectSealed(address, jobs_.begin()->second);
}

absl::StatusOr<ConnectionId> SealedEndpoint::ConnectFor(const std::string& address, JobId id) {
  const auto job = jobs_.find(id);
  if (job != jobs_.end()) return ConnectSealed(address, job->second);
  if (takes_ == Unsealed::kOfOtherJobs) return inner_->Connect(address);
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: no secret of job %d is known", address, id.value()));
}

absl::StatusOr<ConnectionId> SealedEndpoint::ConnectSealed(const std::string& address,
                                                           const std::shared_ptr<Job>& job) {
  auto handshake = seal::Handshake::Connect(
      job->identity, seal::ConnectionSecret(job->keys.secret, job->keys.attempt, address),
      job->payloads.salt());
  if (!handshake.ok()) return handshake.status();
  std::string first;
  if (absl::Status begun = (*handshake)->Take({}, &first); !begun.ok()) return begun;
  const absl::StatusOr<ConnectionId> id = inner_->Connect(address);
  if (!id.ok()) return id;
  auto connection = std::make_unique<Connection>();
  connection->job = job;
  connection->is_outgoing = true;
  connection->handshake = *std::move(handshake);
  connection->flights.push_back(FlightOf(job->job, std::move(first)));
  Connection* const made = connections_.emplace(*id, std::move(connection)).first->second.get();
  Flush(*id, made);
  return id;
}

absl::Status SealedEndpoint::Send(ConnectionId id, const wire::Frame& frame) {
  const auto it = connections_.find(id);
  if (it == connections_.end()) {
    const bool is_sealed = takes_ == Unsealed::kNone || jobs_.contains(JobId(frame.header.job));
    if (!is_sealed || IsRefusal(frame.header.op)) return inner_->Send(id, frame);
    return absl::NotFoundError(absl::StrFormat("connection %d is not sealed", id.value()));
  }
  Connection& connection = *it->second;
  const bool may_wait = connection.is_outgoing && connection.line == nullptr;
  if (connection.is_dead || (connection.line == nullptr && !may_wait)) {
    return absl::NotFoundError(absl::StrFormat("connection %d is not open", id.value()));
  }
  if (connection.line != nullptr && connection.waiting.empty()) {
    return SendSealed(id, &connection, frame);
  }
  if (connection.waiting.size() >= waiting_max_) {
    return absl::ResourceExhaustedError("the peer has not shown yet that it knows the secret");
  }
  connection.waiting.push_back(frame);
  return absl::OkStatus();
}

absl::Status SealedEndpoint::SendHeader(ConnectionId id, Connection* connection,
                                        const wire::Header& header, size_t payload_bytes,
                                        const seal::PayloadSeal& payload, wire::Frame* frame) {
  frame->header = header;
  frame->seal = connection->line->Seal(header, payload_bytes, payload);
  absl::Status sent = inner_->Send(id, *frame);
  if (sent.ok()) connection->line->Took();
  return sent;
}

absl::Status SealedEndpoint::SendSealed(ConnectionId id, Connection* connection,
                                        const wire::Frame& frame) {
  const size_t size = frame.payload.size();
  wire::Frame out;
  const bool may_refer =
      size >= wire::kReferredBytesMin && frame.header.element_count > 0 && inner_->Refers(id);
  if (may_refer) {
    out.payload = frame.payload;
    out.by_reference = true;
    absl::Status sent = SendHeader(id, connection, frame.header, size, {}, &out);
    if (!absl::IsFailedPrecondition(sent)) return sent;
    out.by_reference = false;
  }
  if (size == 0) return SendHeader(id, connection, frame.header, 0, {}, &out);
  std::shared_ptr<const SealedPayload> sealed = connection->job->payloads.Of(frame.payload, &pool_);
  out.payload = sealed->bytes;
  const absl::Status sent = SendHeader(id, connection, frame.header, size, sealed->seal, &out);
  connection->refused = absl::IsResourceExhausted(sent) ? sealed : nullptr;
  sent_.push_back(std::move(sealed));
  return sent;
}

bool SealedEndpoint::Flush(ConnectionId id, Connection* connection) {
  const auto is_full = [](const absl::Status& sent) { return absl::IsResourceExhausted(sent); };
  while (!connection->flights.empty() && !is_full(inner_->Send(id, connection->flights.front()))) {
    connection->flights.pop_front();
  }
  if (connection->line != nullptr && connection->flights.empty()) {
    while (!connection->waiting.empty() &&
           !is_full(SendSealed(id, connection, connection->waiting.front()))) {
      connection->waiting.pop_front();
    }
  }
  const bool is_done =
      connection->flights.empty() && (connection->line == nullptr || connection->waiting.empty());
  if (!is_done) with_waiting_.insert(id);
  return is_done;
}

void SealedEndpoint::Poll(absl::Duration timeout, std::vector<Event>* events) {
  sent_.clear();
  for (const ConnectionId id : std::exchange(with_waiting_, {})) {
    if (const auto it = connections_.find(id); it != connections_.end()) {
      Flush(id, it->second.get());
    }
  }
  raw_.clear();
  inner_->Poll(with_waiting_.empty() ? timeout : std::min(timeout, kRetryInterval), &raw_);
  for (Event& event : raw_) Take(std::move(event), events);
  raw_.clear();
  ended_.clear();
}

void SealedEndpoint::Take(Event event, std::vector<Event>* events) {
  const ConnectionId id = event.connection;
  if (ended_.contains(id)) return;
  const auto it = connections_.find(id);
  if (it == connections_.end()) return TakeOfStranger(std::move(event), events);
  Connection& connection = *it->second;
  if (event.kind == Event::Kind::kDisconnected) {
    connections_.erase(it);
    events->push_back(std::move(event));
    return;
  }
  if (connection.is_dead) return;
  if (event.kind == Event::Kind::kMalformed) return End(id, event.error.ToString(), events);
  if (connection.line == nullptr) return TakeHandshake(std::move(event), events);
  const absl::Status opened = connection.line->Open(&pool_, &event.frame);
  if (!opened.ok()) return End(id, std::string(opened.message()), events);
  events->push_back(std::move(event));
}

void SealedEndpoint::TakeOfStranger(Event event, std::vector<Event>* events) {
  const wire::Header& header = event.frame.header;
  const bool is_frame = event.kind == Event::Kind::kFrame;
  if (is_frame && header.op == wire::Op::kHandshake && !event.frame.seal && !jobs_.empty()) {
    auto handshake =
        seal::Handshake::Accept([this](absl::string_view identity) { return Find(identity); });
    if (!handshake.ok()) {
      return Refuse(event.connection, std::string(handshake.status().message()), events);
    }
    auto connection = std::make_unique<Connection>();
    connection->handshake = *std::move(handshake);
    Connection* const made =
        connections_.emplace(event.connection, std::move(connection)).first->second.get();
    return Advance(event.connection, made, &event.frame, events);
  }
  const bool is_sealed = takes_ == Unsealed::kNone || jobs_.contains(JobId(header.job));
  const bool has_seal = event.frame.seal.has_value() || header.op == wire::Op::kHandshake;
  if (!is_frame || (!is_sealed && !has_seal)) {
    event.frame.writable = nullptr;  // whoever gets it may keep it
    events->push_back(std::move(event));
    return;
  }
  ++unsealed_;
  Refuse(event.connection,
         has_seal ? absl::StrFormat("job %d is not one whose frames are sealed", header.job)
                  : absl::StrFormat("%s of job %d came without a seal", wire::ToString(header.op),
                                    header.job),
         events);
}

void SealedEndpoint::TakeHandshake(Event event, std::vector<Event>* events) {
  const ConnectionId id = event.connection;
  if (event.frame.header.op != wire::Op::kHandshake || event.frame.seal) {
    return End(id, absl::StrCat(wire::ToString(event.frame.header.op), " before the handshake"),
               events);
  }
  Advance(id, connections_.at(id).get(), &event.frame, events);
}

void SealedEndpoint::Advance(ConnectionId id, Connection* connection, const wire::Frame* said,
                             std::vector<Event>* events) {
  std::string reply;
  const absl::Status status = connection->handshake->Take(SpanOf(said->payload), &reply);
  if (!reply.empty()) {
    connection->flights.push_back(FlightOf(JobId(said->header.job), std::move(reply)));
  }
  if (status.ok()) {
    if (connection->handshake->is_done()) OpenLine(connection);
    Flush(id, connection);
    return;
  }
  Flush(id, connection);
  wrong_secrets_ += absl::IsPermissionDenied(status) ? 1 : 0;
  if (connection->is_outgoing) return End(id, std::string(status.message()), events);
  connection->is_dead = true;
  Refuse(id, std::string(status.message()), events);
}

std::shared_ptr<SealedEndpoint::Job> SealedEndpoint::JobOf(absl::string_view identity) const {
  for (const auto& [id, job] : jobs_) {
    if (job->identity == identity) return job;
  }
  return nullptr;
}

std::optional<seal::Handshake::Known> SealedEndpoint::Find(absl::string_view identity) const {
  const std::shared_ptr<Job> job = JobOf(identity);
  if (job == nullptr) return std::nullopt;
  return seal::Handshake::Known{job->connection_secret, job->payloads.salt()};
}

void SealedEndpoint::OpenLine(Connection* connection) {
  if (connection->job == nullptr) connection->job = JobOf(connection->handshake->identity());
  if (connection->job == nullptr) {  // the job has ended meanwhile
    connection->is_dead = true;
    return;
  }
  const Job& job = *connection->job;
  connection->line = std::make_unique<SealedLine>(*connection->handshake, job.job,
                                                  job.keys.protection, job.keys.secret);
  connection->handshake.reset();
}

void SealedEndpoint::Refuse(ConnectionId id, std::string why, std::vector<Event>* events) {
  Event event;
  event.kind = Event::Kind::kMalformed;
  event.connection = id;
  event.error = absl::PermissionDeniedError(why);
  events->push_back(std::move(event));
}

void SealedEndpoint::End(ConnectionId id, const std::string& why, std::vector<Event>* events) {
  broken_seals_ += connections_.at(id)->line != nullptr ? 1 : 0;
  Cut(id);
  Event event;
  event.kind = Event::Kind::kDisconnected;
  event.connection = id;
  event.error = absl::UnavailableError(why);
  events->push_back(std::move(event));
}

void SealedEndpoint::Close(ConnectionId id) {
  connections_.erase(id);
  ended_.insert(id);
  inner_->Close(id);
}

void SealedEndpoint::Cut(ConnectionId id) {
  connections_.erase(id);
  ended_.insert(id);
  inner_->Cut(id);
}

EndpointUse SealedEndpoint::use() const {
  EndpointUse use = inner_->use();
  use.unsealed = unsealed_;
  use.broken_seals = broken_seals_;
  use.wrong_secrets = wrong_secrets_;
  return use;
}

}  // namespace strata::transport
