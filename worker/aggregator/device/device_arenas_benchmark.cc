// The time for a node to sum its ranks' gradients on one device and to have the sum on the host,
// and to bring weights back, beside the device's own copies to and from pinned memory; for a
// bundle's tests/gpu/run.sh. The sums and the weights are compared with the CPU's. usage:
// device_arenas_benchmark PLUGIN [--mib N] [--ranks N] [--chunk-mib N]; exit status 77: there is no
// device.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/cores.h"
#include "common/event_fd.h"
#include "kernels/device/benchmark_support.h"
#include "kernels/device/load_plugin.h"
#include "worker/aggregator/device/copy_in_parts.h"
#include "worker/aggregator/device/device_arenas.h"

namespace strata::worker {
namespace {

using device::Median;

constexpr int kRounds = 9;

struct Options {
  std::string plugin;
  uint64_t mib = 100;
  uint32_t ranks = 4;
  uint32_t chunk_mib = 4;
};

// A node whose ranks have whole numbers as gradients on the device, so that their sum is exact.
class Node {
 public:
  Node(std::shared_ptr<device::Device> device, const Options& options)
      : device_(std::move(device)),
        ranks_(options.ranks),
        map_(options.mib << 18, options.chunk_mib << 18) {}

  absl::Status Prepare();
  // Returns seconds.
  absl::StatusOr<double> Copy(bool to_host);
  absl::StatusOr<double> Sum(uint64_t clock);
  absl::StatusOr<double> Land(uint64_t clock);
  // Checks the newest sums and weights.
  absl::Status Verify();

 private:
  static float Gradient(uint64_t element, uint32_t rank) {
    return static_cast<float>((element * 7 + rank * 13) % 1000);
  }
  size_t bytes() const { return map_.elements() * sizeof(float); }
  absl::Status Settle(std::vector<ChunkId>* summed);

  const std::shared_ptr<device::Device> device_;
  const uint32_t ranks_;
  const ChunkMap map_;
  std::unique_ptr<NodeMemory> memory_;
  std::unique_ptr<AggregatorCore> core_;
  std::unique_ptr<EventFd> woken_;
  std::unique_ptr<ForkJoin> helpers_;
  std::unique_ptr<DeviceArenas> arenas_;
  std::unique_ptr<device::Stream> stream_;
  device::Memory pinned_;
  std::vector<Bytes> sums_;  // by chunk
};

absl::Status Node::Prepare() {
  auto memory = NodeMemory::Create(map_.elements(), ranks_);
  if (!memory.ok()) return memory.status();
  memory_ = *std::move(memory);
  core_ = std::make_unique<AggregatorCore>(RankId(0), ranks_, map_.chunks());
  auto woken = EventFd::Create();
  if (!woken.ok()) return woken.status();
  woken_ = std::make_unique<EventFd>(*std::move(woken));
  helpers_ = std::make_unique<ForkJoin>(CopyHelpersFor(ranks_, UsableCores()));
  DeviceArenasOptions options;
  options.devices.assign(ranks_, device_);
  options.helpers = helpers_.get();
  options.wake = [this] { woken_->Notify(); };
  auto arenas = DeviceArenas::Create(memory_.get(), core_.get(), map_, options);
  if (!arenas.ok()) return arenas.status();
  arenas_ = *std::move(arenas);
  auto stream = device_->NewStream(/*urgent=*/false);
  if (!stream.ok()) return stream.status();
  stream_ = *std::move(stream);
  auto pinned = device_->AllocatePinned(bytes(), "a benchmark");
  if (!pinned.ok()) return pinned.status();
  pinned_ = *std::move(pinned);
  sums_.resize(map_.chunks());
  return absl::OkStatus();
}

absl::StatusOr<double> Node::Copy(bool to_host) {
  void* const weights = arenas_->WeightsForTest(0).get();
  const absl::Time begin = absl::Now();
  absl::Status status = to_host ? stream_->Copy(pinned_.get(), weights, bytes())
                                : stream_->Copy(weights, pinned_.get(), bytes());
  if (status.ok()) status = stream_->Synchronize();
  if (!status.ok()) return status;
  return absl::ToDoubleSeconds(absl::Now() - begin);
}

absl::Status Node::Settle(std::vector<ChunkId>* summed) {
  absl::Status status;
  while (status.ok() && arenas_->busy()) status = arenas_->Poll(summed);
  return status;
}

absl::StatusOr<double> Node::Sum(uint64_t clock) {
  for (uint32_t r = 0; r < ranks_;
       ++r) {  // the first rank's arena holds the sums of the previous clock
    auto* const gradients = reinterpret_cast<float*>(pinned_.get());
    for (uint64_t i = 0; i < map_.elements(); ++i) gradients[i] = Gradient(i, r);
    absl::Status status = stream_->Copy(arenas_->GradientsForTest(r).get(), pinned_.get(), bytes());
    if (status.ok()) status = stream_->Synchronize();
    if (!status.ok()) return status;
  }
  sums_.assign(map_.chunks(), Bytes());
  const std::vector<uint64_t> ready(ranks_, clock + 1);
  std::vector<ChunkId> summed;
  const absl::Time begin = absl::Now();
  for (uint32_t c = 0; c < map_.chunks(); ++c) {
    if (!core_->OnReady(ChunkId(c), ready).value_or(false)) {
      return absl::InternalError("a chunk is not complete");
    }
    const absl::Status begun = arenas_->BeginSum(ChunkId(c), clock).status();
    if (!begun.ok()) return begun;
  }
  if (absl::Status status = Settle(&summed); !status.ok()) return status;
  const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  for (ChunkId chunk : summed) sums_[chunk.value()] = arenas_->TakeSum(chunk, clock).bytes;
  return seconds;
}

// Uses the sums as weights: they are in pinned memory, unlike data from the network.
absl::StatusOr<double> Node::Land(uint64_t clock) {
  std::vector<ChunkId> none;
  const absl::Time begin = absl::Now();
  for (uint32_t c = 0; c < map_.chunks(); ++c) {
    absl::Status status = arenas_->TakeWeights(ChunkId(c), 0, sums_[c]);
    if (status.ok()) status = arenas_->Landed(ChunkId(c), clock);
    if (!status.ok()) return status;
  }
  if (absl::Status status = Settle(&none); !status.ok()) return status;
  return absl::ToDoubleSeconds(absl::Now() - begin);
}

absl::Status Node::Verify() {
  absl::Status status = stream_->Copy(pinned_.get(), arenas_->WeightsForTest(0).get(), bytes());
  if (status.ok()) status = stream_->Synchronize();
  if (!status.ok()) return status;
  const auto* const weights = reinterpret_cast<const float*>(pinned_.get());
  for (uint64_t i = 0; i < map_.elements(); ++i) {
    float expected = 0;
    for (uint32_t r = 0; r < ranks_; ++r) expected += Gradient(i, r);
    if (weights[i] != expected) {
      return absl::DataLossError(
          absl::StrCat("element ", i, " is ", weights[i], " and not the sum, ", expected));
    }
  }
  return absl::OkStatus();
}

absl::Status Measure(const Options& options) {
  auto devices = device::LoadPlugin(options.plugin);
  if (!devices.ok()) return devices.status();
  auto device = (*devices)->Use(0);
  if (!device.ok()) return device.status();
  Node node(*device, options);
  if (absl::Status status = node.Prepare(); !status.ok()) return status;
  std::vector<double> down, up, sums, landings;
  for (uint64_t clock = 0; clock < kRounds; ++clock) {
    for (const auto& [series, measure] :
         {std::pair<std::vector<double>*, std::function<absl::StatusOr<double>()>>(
              &down, [&] { return node.Copy(/*to_host=*/true); }),
          {&sums, [&] { return node.Sum(clock); }},
          {&landings, [&] { return node.Land(clock); }}}) {
      const absl::StatusOr<double> seconds = measure();
      if (!seconds.ok()) return seconds.status();
      series->push_back(*seconds);
    }
    if (absl::Status status = node.Verify(); !status.ok()) return status;
    const absl::StatusOr<double> seconds = node.Copy(/*to_host=*/false);
    if (!seconds.ok()) return seconds.status();
    up.push_back(*seconds);
  }
  const auto line = [](const char* what, double took, const char* bound, double least) {
    std::printf("%-34s %9.3f ms   %5.2f of %s, %.3f ms\n", what, 1e3 * took, took / least, bound,
                1e3 * least);
  };
  std::printf("%s: %s; %u ranks' %lu MiB in chunks of %u MiB\n", (*devices)->software().c_str(),
              (*device)->info().name.c_str(), options.ranks, options.mib, options.chunk_mib);
  line("gradients added, sum on the host", Median(sums), "its copy alone", Median(down));
  line("weights from the host landed", Median(landings), "their copy alone", Median(up));
  device::PrintGoal(
      absl::StrFormat("%u ranks' gradients added, the sum on the host, beside its copy",
                      options.ranks),
      Median(sums) / Median(down), device::Wanted::kAtMost, 1.25);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  CLI::App app("A node's arenas on one device, beside the device's own copies");
  Options options;
  app.add_option("plugin", options.plugin, "Plugin, as strata devices takes it")->required();
  app.add_option("--mib", options.mib, "MiB of a rank's gradients")->check(CLI::Range(1, 4096));
  app.add_option("--ranks", options.ranks, "Ranks on the device")->check(CLI::Range(1, 64));
  app.add_option("--chunk-mib", options.chunk_mib, "MiB of a chunk")->check(CLI::Range(1, 16));
  CLI11_PARSE(app, argc, argv);
  return device::ToExitStatus(Measure(options));
}

}  // namespace
}  // namespace strata::worker

int main(int argc, char** argv) { return strata::worker::Main(argc, argv); }
