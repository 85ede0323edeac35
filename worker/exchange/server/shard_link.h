#ifndef STRATA_WORKER_EXCHANGE_SERVER_SHARD_LINK_H_
#define STRATA_WORKER_EXCHANGE_SERVER_SHARD_LINK_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "common/transport/endpoint.h"
#include "common/transport/link.h"
#include "common/wire/frame.h"

namespace strata::worker {

// Reliable requests to one shard over connections that come and go: sends HELLO, and repeats
// unanswered requests after a reconnect, after a silence and, with backoff, after RETRY: first
// those of chunks or buckets, then LOOKUPs. At most one request per chunk or bucket is open,
// besides LOOKUPs, each of which has a number of its own; so an answer is matched by chunk, op and
// clock. An answer without a match belongs to a repetition and is dropped.
//
// A pure state machine: time comes with the events, frames and connections go out as actions.
class ShardLink {
 public:
  static constexpr uint64_t kLookups = uint64_t{1} << 63;

  // `may_move`: if the shard is not there, it may have moved, of which this link will be told soon.
  ShardLink(LinkId link, std::string address, LinkIdentity identity, LinkTiming timing,
            bool may_move = false);

  const std::string& address() const { return address_; }
  // Bytes of all frames sent for requests of this op.
  uint64_t bytes_sent(wire::Op op) const;

  void Start(absl::Time now, WireActions* actions) { connection_.Start(now, actions); }
  // The shard is at another address now, or has lost its backup: unanswered requests are repeated
  // there, in this newer generation; outdated calls are ignored.
  void Move(const std::string& address, uint32_t generation, absl::Time now, WireActions* actions);
  // `header`: op, key space, chunk, clock, element and sample counts, base_version; the rest is
  // filled in. No other request of this chunk may be open, and none at all for kRetire: the window
  // ensures that, and the simulator checks it. The clock of a LOOKUP is kLookups or more, and none
  // that was used before.
  void Ask(wire::Header header, Bytes payload, absl::Time now, WireActions* actions);

  void OnConnected(transport::ConnectionId connection, absl::Time now, WireActions* actions);
  // The connection is gone, could not be made, or carried something unreadable.
  void OnLost(const absl::Status& why, absl::Time now, WireActions* actions) {
    connection_.OnLost(why, now, actions);
  }
  // The endpoint rejected a frame: its queue to the shard was full.
  void OnSendQueueFull(const wire::Header& header, absl::Time now);
  // Returns the header of the request that this frame answers, if any, and closes the request.
  // Errors: a permanent refusal by the shard; names chunk, clock and address.
  absl::StatusOr<std::optional<wire::Header>> OnFrame(const wire::Frame& frame, absl::Time now,
                                                      WireActions* actions);

  // Does what is due. Errors: Unavailable (no connection for too long).
  absl::Status OnTime(absl::Time now, WireActions* actions);
  // When OnTime has something to do next.
  absl::Time deadline() const;
  // REQUIRES: started.
  LinkActivity Activity(absl::Time now) const;

  bool Owns(transport::ConnectionId connection) const { return connection_.Owns(connection); }
  void Close(WireActions* actions) { connection_.Close(actions); }

 private:
  struct Request {
    wire::Frame frame;
    bool sent = false;
    bool is_own_copy = false;    // of the payload
    bool awaits_answer = false;  // no answer to the last sending yet
    absl::Time asked;
    absl::Time due;  // when to send (again)
    absl::Duration backoff;
  };
  static constexpr uint64_t kRetireKey = uint64_t{1} << 32;  // beyond all chunks
  using Requests = std::map<uint64_t, Request>;

  static uint64_t RequestKey(const wire::Header& header);
  Reconnector MakeConnection() const;
  void Send(Request* request, absl::Time now, WireActions* actions);
  // Returns the request that a RETRY, which does not say its op, answers.
  Requests::iterator FindRetried(const wire::Header& retry);
  void PlanAgain(Request* request, absl::Time now);
  // Sends due requests. If one of them met silence, the next silence may last twice as long: on a
  // slow link, or with a slow node, answers just take their time.
  void SendDue(absl::Time now, WireActions* actions);
  void OnRetry(const wire::Header& header, absl::Time now, WireActions* actions);
  absl::Status Refusal(const wire::Frame& frame) const;

  const LinkId link_;
  std::string address_;
  LinkIdentity identity_;
  const LinkTiming timing_;
  const bool may_move_;

  Reconnector connection_;
  absl::Duration resend_after_;
  Requests requests_;
  std::map<wire::Op, uint64_t> bytes_sent_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_SERVER_SHARD_LINK_H_
