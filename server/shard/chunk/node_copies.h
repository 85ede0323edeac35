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

// The encoding of a job's answers.
struct AnswerRules {
  numerics::CompressionOptions compression;  // kNone: answers are not encoded
  // All nodes always get the same versions, so they share one copy.
  bool shared = false;
  bool keeps_previous = false;  // keeps a shared copy's state before the newest answer
};

// Keeps the nodes' weights of one chunk, bit for bit, if answers are encoded: each answer is the
// payload of what a node's copy lacks, and changes the copy by the decoded payload. So nothing
// drifts, and what one answer leaves out is part of the next.
//
// A payload is given once, and only a node that has the preceding copy can use it. A node that may
// not have it (an answer may be lost, a process may have restarted) gets its whole copy, which
// changes nothing: whatever the node has received meanwhile, it has the copy afterwards.
//
// Threads: one.
class NodeCopies {
 public:
  // The arguments outlive this object; `scratch` is the thread's.
  NodeCopies(const AnswerRules& rules, const kernels::Kernels& kernels, BufferPool& pool,
             numerics::EncoderScratch* scratch, size_t nodes);

  // Returns whether answers are encoded; otherwise there is nothing to call here.
  bool encodes() const { return rules_.compression.compression != numerics::Compression::kNone; }
  // Sets the weights that every node begins with (finite fp32), and their version.
  void Seed(const Bytes& first_weights, uint64_t version);

  struct Answer {
    wire::Codec codec = wire::Codec::kNone;
    Bytes payload;
    uint64_t base = 0;     // number of answers in the copy to which this adds, or which this is
    uint64_t version = 0;  // of the encoded weights
  };
  // Returns the node's next answer, with the weights of `version`; shared copies give the same one
  // to all nodes that are answered with that version. Errors: InvalidArgument: the weights are not
  // finite, or too far from the copy for the codec.
  absl::StatusOr<Answer> Next(size_t node, const Bytes& weights, uint64_t version);
  // The node has no copy: its next answer is the plain weights, and makes one. REQUIRES: copies are
  // not shared.
  void StartOver(size_t node) {
    if (encodes()) copies_[node].begins_anew = true;
  }
  // Returns the node's whole copy.
  Answer WholeCopy(size_t node) const;
  // Returns the whole shared copy before the newest answer. Without payload: it is not kept, or
  // there was no answer.
  const Answer& previous() const { return previous_; }

  // Adds the nodes' copies to a copy of the chunk.
  void AddTo(ChunkCopy* copy) const;
  // REQUIRES: Seed has been called.
  void Restore(ChunkCopyReader* reader);

  size_t bytes() const;

 private:
  struct Copy {
    std::unique_ptr<numerics::Encoder> encoder;
    Answer last;
    uint64_t answers = 0;
    bool begins_anew = false;  // from StartOver to the answer after it
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
