#ifndef STRATA_COMMON_TRANSPORT_SEALED_ENDPOINT_H_
#define STRATA_COMMON_TRANSPORT_SEALED_ENDPOINT_H_

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/buffer_pool.h"
#include "common/ids.h"
#include "common/seal/handshake.h"
#include "common/seal/seal.h"
#include "common/transport/endpoint.h"
#include "common/transport/sealed_line.h"

namespace strata::transport {

// An endpoint whose frames are sealed for the jobs passed to Protect. Both ends of a connection
// prove to each other that they know the job's secret before any frame of the job passes in either
// direction. If an attacker changes, drops, repeats or delays anything, the connection ends as if
// it were lost, and its owner reconnects. Payloads that go by reference stay on the host: only
// their headers are sealed.
//
// Frames of strangers show as kMalformed. A bad frame on a sealed connection shows as
// kDisconnected: the peer did not send it.
//
// Threads: as Endpoint.
class SealedEndpoint : public Endpoint {
 public:
  enum class Unsealed {
    kOfOtherJobs,  // frames of jobs that are not protected pass as they are
    kNone,         // none passes
  };
  // Frames that may wait for the handshake of a connection made from here: more than one only if
  // the sender does not wait for HELLO's answer.
  static constexpr size_t kWaitingMax = 64;

  SealedEndpoint(std::unique_ptr<Endpoint> inner, Unsealed takes, size_t waiting_max = kWaitingMax);

  absl::StatusOr<int> Listen(const std::string& address) override;
  absl::StatusOr<ConnectionId> Connect(const std::string& address) override;
  absl::StatusOr<ConnectionId> ConnectFor(const std::string& address, JobId job) override;
  absl::Status Send(ConnectionId connection, const wire::Frame& frame) override;
  void Poll(absl::Duration timeout, std::vector<Event>* events) override;
  void WatchFd(int fd) override { inner_->WatchFd(fd); }
  EndpointUse use() const override;
  std::shared_ptr<BlockSource> memory() const override { return inner_->memory(); }
  std::shared_ptr<BlockSource> NewMemory() override { return inner_->NewMemory(); }
  void Admit(ConnectionId connection, const std::shared_ptr<BlockSource>& memory) override {
    inner_->Admit(connection, memory);
  }
  bool Refers(ConnectionId connection) const override { return inner_->Refers(connection); }
  absl::Status Protect(JobId job, const seal::JobKeys& keys) override;
  void Forget(JobId job) override { jobs_.erase(job); }
  void Close(ConnectionId connection) override;
  void Cut(ConnectionId connection) override;
  void Wake() override { inner_->Wake(); }

 private:
  // A protected job, as long as it is known or has connections.
  struct Job {
    Job(JobId id, const seal::JobKeys& job_keys);

    const JobId job;
    const seal::JobKeys keys;
    const std::string identity;
    const seal::Secret connection_secret;  // for peers that connect to this endpoint
    PayloadSeals payloads;
  };
  struct Connection {
    std::shared_ptr<Job> job;  // null: the peer has not named it
    bool is_outgoing = false;
    bool is_dead = false;  // its peer was refused: its messages are dropped
    std::unique_ptr<seal::Handshake> handshake;
    std::deque<wire::Frame> flights;  // handshake messages that wait to be sent
    std::deque<wire::Frame> waiting;  // the owner's frames, until the handshake is done
    std::unique_ptr<SealedLine> line;
    // The payload of the last rejected frame, which will be sent again.
    std::shared_ptr<const SealedPayload> refused;
  };

  // Null: no such job is protected.
  std::shared_ptr<Job> JobOf(absl::string_view identity) const;
  std::optional<seal::Handshake::Known> Find(absl::string_view identity) const;
  void Take(Event event, std::vector<Event>* events);
  // Handles an event of a peer that has not begun a handshake.
  void TakeOfStranger(Event event, std::vector<Event>* events);
  void TakeHandshake(Event event, std::vector<Event>* events);
  absl::StatusOr<ConnectionId> ConnectSealed(const std::string& address,
                                             const std::shared_ptr<Job>& job);
  void Advance(ConnectionId id, Connection* connection, const wire::Frame* said,
               std::vector<Event>* events);
  // The peer has completed its proof.
  void OpenLine(Connection* connection);
  // Refuses a message of a peer that has proved nothing.
  void Refuse(ConnectionId id, std::string why, std::vector<Event>* events);
  // Ends a connection as if it had been lost.
  void End(ConnectionId id, const std::string& why, std::vector<Event>* events);
  // Sends waiting frames; returns false if some still wait.
  bool Flush(ConnectionId id, Connection* connection);
  absl::Status SendSealed(ConnectionId id, Connection* connection, const wire::Frame& frame);
  absl::Status SendHeader(ConnectionId id, Connection* connection, const wire::Header& header,
                          size_t payload_bytes, const seal::PayloadSeal& payload,
                          wire::Frame* frame);

  const std::unique_ptr<Endpoint> inner_;
  const Unsealed takes_;
  const size_t waiting_max_;
  BufferPool pool_;
  absl::flat_hash_map<JobId, std::shared_ptr<Job>> jobs_;
  absl::flat_hash_map<ConnectionId, std::unique_ptr<Connection>> connections_;
  absl::flat_hash_set<ConnectionId> with_waiting_;
  // Since the last Poll: payloads may go to more peers, and events of closed connections are
  // dropped.
  std::vector<std::shared_ptr<const SealedPayload>> sent_;
  absl::flat_hash_set<ConnectionId> ended_;
  std::vector<Event> raw_;
  uint64_t unsealed_ = 0, broken_seals_ = 0, wrong_secrets_ = 0;
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_SEALED_ENDPOINT_H_
