// The time to encode a node's gradient sums on a device and to have the payloads on the host, for
// every codec, beside the lower bound: the copy of as many bytes to pinned memory, or the device's
// memory traffic (sums and state read, state and payloads written, payloads read), whichever takes
// longer. For a bundle's tests/gpu/run.sh. The payloads are compared with the CPU's encoder first.
// usage: device_encoder_benchmark PLUGIN [--mib N] [--chunk-mib N]; exit status 77: there is no
// device.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "kernels/device/benchmark_support.h"
#include "kernels/device/load_plugin.h"
#include "kernels/kernels.h"
#include "worker/aggregator/device/device_encoder.h"
#include "worker/exchange/server/push_encoder.h"

namespace strata::worker {
namespace {

using device::Median;

constexpr int kRounds = 9;
constexpr int kVerified = 2;  // steps; the second one has a remainder from the first

struct Options {
  std::string plugin;
  uint64_t mib = 100;
  uint32_t chunk_mib = 4;
};

struct Codec {
  const char* name;
  proto::Encoding::Codec codec;
  double density = 0;
  // Minimum of bytes read or written per element: the sum, and the residual before and after.
  int bytes = 12;
};

constexpr Codec kCodecs[] = {{"fp16", proto::Encoding::FP16},
                             {"bf16", proto::Encoding::BF16},
                             {"int8", proto::Encoding::INT8},
                             {"1 bit", proto::Encoding::ONE_BIT},
                             {"1 % of the elements", proto::Encoding::TOP_K, 0.01},
                             {"0.1 %, DGC", proto::Encoding::DGC, 0.001, 20}};

proto::JobRecord RecordOf(const Codec& codec) {
  proto::JobRecord record;
  proto::Encoding& push = *record.mutable_job()->mutable_push();
  push.set_codec(codec.codec);
  if (codec.density > 0) push.set_density(static_cast<float>(codec.density));
  if (codec.codec == proto::Encoding::DGC) push.set_momentum(0.9f);
  record.mutable_view()->add_nodes()->set_ranks(1);
  return record;
}

// A node's sums on a device and their payloads on the host.
class Node {
 public:
  Node(std::shared_ptr<device::Device> device, const Options& options)
      : device_(std::move(device)), map_(options.mib << 18, options.chunk_mib << 18) {}

  absl::Status Prepare();
  // Returns the bound as a share of the measured time.
  absl::StatusOr<double> Measure(const Codec& codec);

 private:
  size_t bytes() const { return map_.elements() * sizeof(float); }
  const float* SumOf(ChunkId chunk) const {
    return reinterpret_cast<const float*>(sums_.get()) + map_.OffsetOf(chunk);
  }
  // Queues all chunks.
  absl::Status Encode();
  // Returns the total bytes of all payloads.
  absl::StatusOr<size_t> Verify(PushEncoder* on_host);
  absl::StatusOr<double> Seconds(const std::function<absl::Status()>& queue);

  const std::shared_ptr<device::Device> device_;
  const ChunkMap map_;
  std::vector<float> host_sums_;
  std::unique_ptr<device::Stream> stream_, copies_;
  std::unique_ptr<device::Event> encoded_, copied_;  // of the last chunk
  device::Memory sums_, copy_, pinned_;              // `copy_`: written by copies on the device
  std::unique_ptr<DeviceEncoder> encoder_;
  std::vector<std::shared_ptr<std::byte>> payloads_;  // by chunk, in `pinned_`
};

absl::Status Node::Prepare() {
  auto stream = device_->NewStream(/*urgent=*/false);
  if (!stream.ok()) return stream.status();
  stream_ = *std::move(stream);
  stream = device_->NewStream(/*urgent=*/false);
  if (!stream.ok()) return stream.status();
  copies_ = *std::move(stream);
  for (std::unique_ptr<device::Event>* event : {&encoded_, &copied_}) {
    auto made = device_->NewEvent();
    if (!made.ok()) return made.status();
    *event = *std::move(made);
  }
  for (device::Memory* memory : {&sums_, &copy_}) {
    auto allocated = device_->Allocate(bytes(), "a benchmark");
    if (!allocated.ok()) return allocated.status();
    *memory = *std::move(allocated);
  }
  std::mt19937 random(1);
  std::normal_distribution<float> values(0, 1e-2f);
  host_sums_.resize(map_.elements());
  for (float& value : host_sums_) value = values(random);
  absl::Status status = stream_->Copy(sums_.get(), host_sums_.data(), bytes());
  return status.ok() ? stream_->Synchronize() : status;
}

absl::Status Node::Encode() {
  for (uint32_t c = 0; c < map_.chunks(); ++c) {
    const auto outcome =
        encoder_->Encode(ChunkId(c), SumOf(ChunkId(c)), /*samples=*/1, stream_.get());
    if (!outcome.ok()) return outcome.status();
    absl::Status status = stream_->Record(encoded_.get());
    if (status.ok()) status = copies_->Wait(*encoded_);
    if (status.ok()) status = copies_->Copy(payloads_[c].get(), outcome->at, outcome->bytes);
    if (status.ok()) status = copies_->Record(outcome->copied);
    if (!status.ok()) return status;
  }
  // Waiting for one of them is waiting for both.
  absl::Status status = copies_->Record(copied_.get());
  return status.ok() ? stream_->Wait(*copied_) : status;
}

absl::StatusOr<size_t> Node::Verify(PushEncoder* on_host) {
  absl::Status status = Encode();
  if (status.ok()) status = stream_->Synchronize();
  if (!status.ok()) return status;
  size_t total = 0;
  for (uint32_t c = 0; c < map_.chunks(); ++c) {
    const ChunkId chunk(c);
    const auto got = encoder_->PayloadIn(payloads_[c], chunk);
    if (!got.ok()) return got.status();
    const auto* const sum =
        reinterpret_cast<const std::byte*>(host_sums_.data() + map_.OffsetOf(chunk));
    const auto expected =
        on_host->Encode(chunk, Bytes(nullptr, sum, map_.ElementsOf(chunk) * sizeof(float)), 1);
    if (!expected.ok()) return expected.status();
    if (got->size() != expected->payload.size() ||
        std::memcmp(got->data(), expected->payload.data(), got->size()) != 0) {
      return absl::DataLossError(absl::StrCat("chunk ", c, ": has other bits than the CPU's"));
    }
    total += got->size();
  }
  return total;
}

absl::StatusOr<double> Node::Seconds(const std::function<absl::Status()>& queue) {
  const absl::Time begin = absl::Now();
  absl::Status status = queue();
  if (status.ok()) status = stream_->Synchronize();
  if (!status.ok()) return status;
  return absl::ToDoubleSeconds(absl::Now() - begin);
}

absl::StatusOr<double> Node::Measure(const Codec& codec) {
  const proto::JobRecord record = RecordOf(codec);
  auto encoder = DeviceEncoder::Create(record, NodeId(0), map_, {}, device_, stream_.get());
  if (!encoder.ok()) return encoder.status();
  encoder_ = *std::move(encoder);
  auto on_host = PushEncoder::Create(record, NodeId(0), map_, kernels::Cpu());
  if (!on_host.ok()) return on_host.status();
  size_t room = 0;
  for (uint32_t c = 0; c < map_.chunks(); ++c) room += encoder_->host_bytes(ChunkId(c)) + 64;
  auto pinned = device_->AllocatePinned(room, "a benchmark");
  if (!pinned.ok()) return pinned.status();
  pinned_ = *std::move(pinned);
  payloads_.clear();
  for (size_t c = 0, at = 0; c < map_.chunks(); ++c) {
    payloads_.emplace_back(pinned_, pinned_.get() + at);
    at += (encoder_->host_bytes(ChunkId(static_cast<uint32_t>(c))) + 63) / 64 * 64;
  }
  size_t sent = 0;
  for (int step = 0; step < kVerified; ++step) {
    const absl::StatusOr<size_t> size = Verify(on_host->get());
    if (!size.ok()) return size.status();
    sent = *size;
  }
  // Copies read and write; the copies of a whole vector are scaled to the actual bytes.
  const double traffic = static_cast<double>(codec.bytes) * static_cast<double>(map_.elements()) +
                         2 * static_cast<double>(sent);
  const double scale = traffic / (2 * static_cast<double>(bytes()));
  std::vector<double> encoded, copied, moved;
  for (int round = 0; round < kRounds; ++round) {
    const auto copy = Seconds([&] { return stream_->Copy(pinned_.get(), sums_.get(), sent); });
    const auto all = Seconds([&] { return Encode(); });
    const auto move = Seconds([&] { return stream_->Copy(copy_.get(), sums_.get(), bytes()); });
    for (const auto* seconds : {&copy, &all, &move}) {
      if (!seconds->ok()) return seconds->status();
    }
    copied.push_back(*copy);
    encoded.push_back(*all);
    moved.push_back(*move * scale);
  }
  const double copy = Median(copied), move = Median(moved), took = Median(encoded);
  std::printf(
      "%-20s %9.3f ms   %5.2f of the bound, %.3f ms by the %s; %.1f MB to the host %.3f ms, %.1f "
      "MB in the device's memory %.3f ms\n",
      codec.name, 1e3 * took, std::max(copy, move) / took, 1e3 * std::max(copy, move),
      copy > move ? "copy" : "device's memory", static_cast<double>(sent) / 1e6, 1e3 * copy,
      traffic / 1e6, 1e3 * move);
  std::fflush(stdout);
  return std::max(copy, move) / took;
}

absl::Status RunAll(const Options& options) {
  const auto devices = device::LoadPlugin(options.plugin);
  if (!devices.ok()) return devices.status();
  const auto device = (*devices)->Use(0);
  if (!device.ok()) return device.status();
  Node node(*device, options);
  if (absl::Status status = node.Prepare(); !status.ok()) return status;
  std::printf("%s: %s; sums of %lu MiB in chunks of %u MiB, encoded and copied to the host\n",
              (*devices)->software().c_str(), (*device)->info().name.c_str(), options.mib,
              options.chunk_mib);
  using Slowest = std::pair<double, std::string>;
  Slowest dense(INFINITY, ""), sparse(INFINITY, "");
  for (const Codec& codec : kCodecs) {
    const absl::StatusOr<double> share = node.Measure(codec);
    if (!share.ok()) {
      return absl::Status(share.status().code(),
                          absl::StrCat(codec.name, ": ", share.status().message()));
    }
    Slowest& least = codec.density > 0 ? sparse : dense;
    least = std::min(least, {*share, codec.name});
  }
  for (const auto& [which, least] : {std::pair("dense", &dense), {"sparse", &sparse}}) {
    device::PrintGoal(absl::StrFormat("sums encoded and copied to the host beside the bound, the "
                                      "slowest %s codec (%s)",
                                      which, least->second),
                      least->first, device::Wanted::kAtLeast, 0.90);
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  CLI::App app("Gradient sums encoded on a device, beside the device's own copies");
  Options options;
  app.add_option("plugin", options.plugin, "Plugin, as strata devices takes it")->required();
  app.add_option("--mib", options.mib, "MiB of the sums")->check(CLI::Range(1, 4096));
  app.add_option("--chunk-mib", options.chunk_mib, "MiB of a chunk")->check(CLI::Range(1, 16));
  CLI11_PARSE(app, argc, argv);
  return device::ToExitStatus(RunAll(options));
}

}  // namespace
}  // namespace strata::worker

int main(int argc, char** argv) { return strata::worker::Main(argc, argv); }
