#include "cli/bench/memory_pass.h"

#include <algorithm>
#include <chrono>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace strata::cli {
namespace {

// Whole pages, so that parts begin at a vector's boundary.
constexpr uint64_t kPartElements = 65536;

void AddPlainly(const std::vector<const float*>& inputs, float* out, uint64_t begin, uint64_t end) {
  for (uint64_t i = begin; i < end; ++i) {
    float sum = inputs[0][i];
    for (size_t r = 1; r < inputs.size(); ++r) sum += inputs[r][i];
    out[i] = sum;
  }
}

#if defined(__x86_64__)
// Four vectors at a time; how far it came.
uint64_t AddNarrow(const std::vector<const float*>& inputs, float* out, uint64_t i, uint64_t end) {
  for (; i + 16 <= end; i += 16) {
    __m128 sum[4];
    for (int v = 0; v < 4; ++v) sum[v] = _mm_load_ps(inputs[0] + i + 4 * v);
    for (size_t r = 1; r < inputs.size(); ++r) {
      for (int v = 0; v < 4; ++v) {
        sum[v] = _mm_add_ps(sum[v], _mm_load_ps(inputs[r] + i + 4 * v));
      }
    }
    for (int v = 0; v < 4; ++v) _mm_stream_ps(out + i + 4 * v, sum[v]);
  }
  _mm_sfence();
  return i;
}

__attribute__((target("avx512f"))) uint64_t AddWide(const std::vector<const float*>& inputs,
                                                    float* out, uint64_t i, uint64_t end) {
  for (; i + 64 <= end; i += 64) {
    __m512 sum[4];
    for (int v = 0; v < 4; ++v) sum[v] = _mm512_load_ps(inputs[0] + i + 16 * v);
    for (size_t r = 1; r < inputs.size(); ++r) {
      for (int v = 0; v < 4; ++v) {
        sum[v] = _mm512_add_ps(sum[v], _mm512_load_ps(inputs[r] + i + 16 * v));
      }
    }
    for (int v = 0; v < 4; ++v) _mm512_stream_ps(out + i + 16 * v, sum[v]);
  }
  _mm_sfence();
  return i;
}

uint64_t AddStreaming(const std::vector<const float*>& inputs, float* out, uint64_t begin,
                      uint64_t end) {
  if (__builtin_cpu_supports("avx512f")) return AddWide(inputs, out, begin, end);
  return AddNarrow(inputs, out, begin, end);
}
#else
uint64_t AddStreaming(const std::vector<const float*>&, float*, uint64_t begin, uint64_t) {
  return begin;
}
#endif

}  // namespace

absl::StatusOr<std::unique_ptr<MemoryPass>> MemoryPass::Create(uint64_t elements, uint32_t inputs,
                                                               uint32_t threads) {
  auto memory = worker::NodeMemory::Create(elements, inputs);
  if (!memory.ok()) return memory.status();
  std::fill_n((*memory)->weights(), elements, 0.0f);
  return std::unique_ptr<MemoryPass>(new MemoryPass(*std::move(memory), threads));
}

double MemoryPass::Ms() {
  const worker::NodeOffsets& offsets = memory_->offsets();
  std::vector<const float*> inputs;
  for (uint32_t r = 0; r < offsets.local_ranks; ++r) inputs.push_back(memory_->gradients(r));
  float* const out = memory_->weights();
  helpers_.Run(offsets.local_ranks, helpers_.helpers(), [&](uint32_t r) {
    std::fill_n(memory_->gradients(r), offsets.elements, static_cast<float>(r));
  });
  const auto parts = static_cast<uint32_t>((offsets.elements + kPartElements - 1) / kPartElements);
  const auto start = std::chrono::steady_clock::now();
  helpers_.Run(parts, helpers_.helpers(), [&](uint32_t part) {
    const uint64_t begin = part * kPartElements;
    const uint64_t end = std::min(begin + kPartElements, offsets.elements);
    AddPlainly(inputs, out, AddStreaming(inputs, out, begin, end), end);
  });
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  return took.count();
}

}  // namespace strata::cli
