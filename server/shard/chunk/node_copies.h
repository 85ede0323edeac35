#ifndef STRATA_SERVER_SHARD_CHUNK_NODE_COPIES_H_
#define STRATA_SERVER_SHARD_CHUNK_NODE_COPIES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/buffer_pool.h"
#include "common/bytes.h"
#include "common/wire/payload.h"
#include "numerics/encoder.h"
#include "server/shard/chunk/chunk_copy.h"

namespace strata::server {

// How a job's answers are encoded.
struct AnswerRules {
  numerics::CompressionOptions compression;  // kNone: not at all
  // All nodes are always answered with the same versions, so that one copy is every node's.
  bool shared = false;
  bool keeps_previous = false;  // of a shared copy: what it was before the newest answer
};

// Keeps the weights of one chunk that the nodes have, bit for bit, where answers are encoded: each
// answer is the payload of what a node's copy lacks, and changes it by what that decodes to. So
// nothing drifts, and what one answer leaves out is part of the next.
//
// A payload is given once, and only a node that has the copy before it can use it. A node that may
// not have it (an answer may be lost, a process may have restarted) is given its whole copy, which
// changes nothing: whatever a node has taken meanwhile, it has the copy afterwards.
//
// Threads: one.
class NodeCopies {
 public:
  // All outlive this; `scratch` is the thread's.
  NodeCopies(const AnswerRules& rules, const kernels::Kernels& kernels, BufferPool& pool,
             numerics::EncoderScratch* scratch, size_t nodes);

  // Returns whether answers are encoded: else there is nothing to call here.
  bool encodes() const { return rules_.compression.compression != numerics::Compression::kNone; }
  // Takes what every node begins with, finite fp32, and the version of the weights that it is.
  void Seed(const Bytes& first_weights, uint64_t version);

  struct Answer {
    wire::Codec codec = wire::Codec::kNone;
    Bytes payload;
    uint64_t base = 0;     // answers that a copy has, to which this adds or which this is
    uint64_t version = 0;  // of the weights that were encoded
  };
  // Returns the next answer of the node, with the weights of `version`; where copies are shared,
  // this is the same one for all nodes that are answered with that version.
  // Errors: InvalidArgument: the weights are not finite, or too far from the copy for the codec.
  absl::StatusOr<Answer> Next(size_t node, const Bytes& weights, uint64_t version);
  // The node has no copy: its next answer is the weights as they are, and makes one. REQUIRES:
  // copies are not shared.
  void StartOver(size_t node) {
    if (encodes()) copies_[node].begins_anew = true;
  }
  // Returns all of the node's copy.
  Answer WholeCopy(size_t node) const;
  // Returns all of the shared copy as it was before the newest answer. No payload: that is not
  // kept, or there was no answer.
  const Answer& previous() const { return previous_; }

  // The nodes' copies, for another copy of the chunk.
  void AddTo(ChunkCopy* copy) const;
  // REQUIRES: Seed has been called.
  void Restore(ChunkCopyReader* reader);

  size_t bytes() const;

 private:
  struct Copy {
    std::unique_ptr<numerics::Encoder> encoder;
    Answer last;
    uint64_t answers = 0;
    bool begins_anew = false;  // from StartOver to the answer, which follows it
  };
  const Copy& CopyFor(size_t node) const { return copies_[rules_.shared ? 0 : node]; }

  const AnswerRules& rules_;
  const kernels::Kernels& kernels_;
  BufferPool& pool_;
  numerics::EncoderScratch* const scratch_;
  std::vector<Copy> copies_;
  Answer previous_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_CHUNK_NODE_COPIES_H_
