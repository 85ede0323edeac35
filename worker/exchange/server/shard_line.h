#ifndef STRATA_WORKER_EXCHANGE_SERVER_SHARD_LINE_H_
#define STRATA_WORKER_EXCHANGE_SERVER_SHARD_LINE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "common/transport/endpoint.h"
#include "common/wire/frame.h"
#include "worker/exchange/connection/line.h"

namespace strata::worker {

// Reliable requests to one shard over connections that come and go: says HELLO, repeats what has
// not been answered after a new connection, after a silence and, with backoff, after RETRY. At most
// one request per chunk at a time, so an answer is matched by chunk, op and clock; whatever
// matches nothing is an echo of a repetition and is dropped.
//
// A pure state machine: time comes with the events, frames and connections go out as actions.
class ShardLine {
 public:
  ShardLine(LineId line, std::string address, LineIdentity identity, LineTiming timing);

  const std::string& address() const { return address_; }
  // Bytes of all frames sent for requests of this op.
  uint64_t bytes_sent(wire::Op op) const;

  void Start(absl::Time now, std::vector<WireAction>* actions);
  // `header`: op, chunk, clock, element and sample counts, base_version; the rest is filled in.
  // REQUIRES: no request of this chunk (of kRetire: no other) is open.
  void Ask(wire::Header header, Bytes payload, absl::Time now, std::vector<WireAction>* actions);

  void OnConnected(transport::ConnectionId connection, absl::Time now,
                   std::vector<WireAction>* actions);
  // The connection is gone, could not be made, or carried something unreadable.
  void OnLost(const absl::Status& why, absl::Time now, std::vector<WireAction>* actions);
  // The endpoint did not take a frame.
  void OnNotTaken(const wire::Header& header, absl::Time now);
  // The header of the request that this frame answers, if it answers one, which then is closed.
  // Errors: what the shard refused, for good; names chunk, clock and address.
  absl::StatusOr<std::optional<wire::Header>> OnFrame(const wire::Frame& frame, absl::Time now,
                                                      std::vector<WireAction>* actions);

  // Does what is due. Errors: Unavailable (no connection for too long).
  absl::Status OnTime(absl::Time now, std::vector<WireAction>* actions);
  // When OnTime has something to do next.
  absl::Time deadline() const;
  // REQUIRES: started.
  LineActivity Activity(absl::Time now) const;

  bool Owns(transport::ConnectionId connection) const { return connection_ == connection; }
  void Close(std::vector<WireAction>* actions);

 private:
  struct Request {
    wire::Frame frame;
    bool sent = false;
    bool is_own_copy = false;    // of the payload
    bool awaits_answer = false;  // nothing has been heard of the last sending
    absl::Time asked;
    absl::Time due;  // to be sent (again)
    absl::Duration backoff;
  };
  enum class State { kIdle, kConnecting, kGreeting, kUp };
  static constexpr uint64_t kRetireKey = uint64_t{1} << 32;  // beyond all chunks

  static uint64_t KeyOf(const wire::Header& header);
  void Send(Request* request, absl::Time now, std::vector<WireAction>* actions);
  void PlanAgain(Request* request, absl::Time now);
  // Requests that are due; where one of them has met silence, the next silence may be twice as
  // long: on a slow link, or with a slow node, answers just take their time.
  void SendDue(absl::Time now, std::vector<WireAction>* actions);
  void PlanReconnect(absl::Time now);
  void OnRetry(const wire::Header& header, absl::Time now, std::vector<WireAction>* actions);
  absl::Status Refusal(const wire::Frame& frame) const;

  const LineId line_;
  const std::string address_;
  const LineIdentity identity_;
  const LineTiming timing_;

  State state_ = State::kIdle;
  std::optional<transport::ConnectionId> connection_;
  absl::Time state_due_ = absl::InfiniteFuture();  // kIdle: connect; kGreeting: give this one up
  absl::Time down_since_ = absl::InfiniteFuture();
  absl::Duration backoff_;
  absl::Duration resend_after_;
  absl::Status last_loss_;
  std::map<uint64_t, Request> requests_;
  std::map<wire::Op, uint64_t> bytes_sent_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_SERVER_SHARD_LINE_H_
