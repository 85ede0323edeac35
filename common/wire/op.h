#ifndef STRATA_COMMON_WIRE_OP_H_
#define STRATA_COMMON_WIRE_OP_H_

#include <cstdint>
#include <string>

namespace strata::wire {

// What a frame is for; see frame.h.
enum class Op : uint8_t {
  kHello = 1,  // first frame of a connection; payload: Hello
  kHelloOk = 2,
  kInit = 3,       // first weights of a chunk
  kInitOk = 4,     // confirmed; no payload
  kPushPull = 5,   // sum over the node's ranks
  kAnswer = 6,     // to kPushPull: weights; with a codec: to be added to those after base_version
                   // answers; of a job with one, but without: those after base_version answers
  kCut = 7,        // ask for the chunk's weights at clock T
  kCutAnswer = 8,  // weights
  kRetire = 9,     // the node pushes no more: its count is infinity
  kRetireOk = 10,
  kRetry = 11,  // a frame from the future (view, generation, before INIT): send it again later
  kError = 12,  // refused; payload: text, never longer than the request's payload
  // Between nodes, besides HELLO, RETIRE and ERROR (which ends the job):
  kSeed = 13,    // payload: u64 XXH3-64 of the first weights of `chunk` and of those after it
  kReduce = 14,  // the sum of slices over some nodes
  kGather = 15,  // weights of slices
  kAck = 16,     // `received` alone
  kFirst = 19,   // first weights of a chunk, given on; also to INIT with EMPTY
  // Between endpoints that share a host; cores do not see them:
  kAttach = 17,    // payload: u64, the session of shared memory that goes with this connection
  kAttachOk = 18,  // from now on frames may come with payload_kind REGION
  // Before HELLO, where the job's frames are sealed; cores do not see it. Payload: bytes of TLS
  kHandshake = 20,
  // From a shard's primary to its backup, besides HELLO and what a node has said to the primary
  // (INIT, PUSHPULL, RETIRE, as it said it, but for `generation`); answered by ACK.
  kApply = 21,  // the sum of a clock over all nodes that have not retired; EMPTY: no node had one.
                // With a quorum: the grace of the chunk's open clock is over
  kCopy = 22,   // likewise, of a chunk that the backup lacks: part `clock` of all that it is
  // From a node whose process has taken another one's place:
  kPull = 23,    // ask for the chunk's weights at `clock`; EMPTY: only how many pushes have come
  kPulled = 24,  // that number in `received`, and the weights; EMPTY: none
};
// Whether frames of this op are counted on a link between nodes.
bool IsSequenced(Op op);
// Whether a primary says frames of this op to its backup, which counts them, too.
bool IsLogged(Op op);

// Why a frame is refused, or put off.
enum class ErrorCode : uint8_t {
  kNone = 0,
  kMalformed = 1,  // Decode failed
  kWrongJob = 2,   // no such job here, or a bad token
  kWrongView = 3,
  kWrongGeneration = 4,
  kNoHello = 5,  // data before HELLO, or of another node than HELLO said
  kWrongRole = 6,
  kWrongChunk = 7,        // not on this shard, or element_count not the chunk's
  kBeyondWindow = 8,      // clock ahead of what the job's depth allows
  kConflict = 9,          // INIT or duplicate with another checksum
  kNotFinite = 10,        // NaN or infinity in a push
  kFenced = 11,           // a newer incarnation of the node has said HELLO
  kWrongVersion = 12,     // HELLO of another protocol version
  kPeerFailed = 13,       // between nodes: the job has failed at the sender
  kWrongCodec = 14,       // not the job's for this op
  kWrongConnection = 15,  // HELLO of one more than the job allows a pair of peers
};

std::string ToString(Op op), ToString(ErrorCode code);

}  // namespace strata::wire

#endif  // STRATA_COMMON_WIRE_OP_H_
