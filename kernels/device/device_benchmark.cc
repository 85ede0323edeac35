// The performance of the kernels on a plugin's first device, beside its own copy of as many bytes;
// for a bundle's tests/gpu/run.sh. Every result is compared with the CPU's kernels first. usage:
// device_benchmark PLUGIN [--mib N]; exit status 77: there is no device.
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
#include "common/wire/payload.h"
#include "kernels/device/benchmark_support.h"
#include "kernels/device/device_kernels.h"
#include "kernels/device/load_plugin.h"
#include "kernels/kernels.h"

namespace strata::device {
namespace {

constexpr int kRounds = 5;
constexpr absl::Duration kRound = absl::Milliseconds(40);
constexpr int kInputs = 8;

// Buffers of n elements on the device, and what the host has of them.
struct Bench {
  std::shared_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  size_t n = 0;
  std::vector<std::vector<float>> host;  // inputs
  std::vector<Memory> inputs;
  Memory out, payload, verdict;

  const float* In(int i) const { return reinterpret_cast<const float*>(inputs[i].get()); }
  float* Out() const { return reinterpret_cast<float*>(out.get()); }
  Verdict* Judge() const { return reinterpret_cast<Verdict*>(verdict.get()); }
};

struct Case {
  std::string name;
  double bytes;  // read and written
  std::function<absl::Status()> launch;
  const void* result;                                // on the device
  std::function<std::vector<std::byte>()> expected;  // what the CPU makes of it
  std::function<absl::Status()> prepare = nullptr;   // before the call that is checked
};

absl::StatusOr<Bench> Prepare(std::shared_ptr<Device> device, size_t n) {
  Bench bench;
  bench.n = n;
  auto stream = device->NewStream(false);
  if (!stream.ok()) return stream.status();
  bench.stream = *std::move(stream);
  const auto allocate = [&](size_t bytes, const char* what, Memory* memory) {
    absl::StatusOr<Memory> got = device->Allocate(bytes, what);
    if (got.ok()) *memory = *std::move(got);
    return got.status();
  };
  std::mt19937 random(1);
  std::uniform_real_distribution<float> values(-1, 1);
  for (int i = 0; i < kInputs; ++i) {
    std::vector<float>& host = bench.host.emplace_back(n);
    for (float& value : host) value = values(random);
    absl::Status status = allocate(n * 4, "a benchmark's input", &bench.inputs.emplace_back());
    if (status.ok()) status = bench.stream->Copy(bench.inputs.back().get(), host.data(), n * 4);
    if (status.ok()) status = bench.stream->Synchronize();
    if (!status.ok()) return status;
  }
  for (const auto& [memory, bytes] :
       {std::pair(&bench.out, n * 4), std::pair(&bench.payload, n * 4),
        std::pair(&bench.verdict, sizeof(Verdict))}) {
    if (absl::Status status = allocate(bytes, "a benchmark's output", memory); !status.ok()) {
      return status;
    }
  }
  absl::Status status = bench.stream->Fill(bench.verdict.get(), kGoodByte, sizeof(Verdict));
  if (!status.ok()) return status;
  bench.device = std::move(device);
  return bench;
}

// Seconds of one call, the median over rounds.
absl::StatusOr<double> Seconds(const Bench& bench, const std::function<absl::Status()>& launch) {
  std::vector<double> rounds;
  int calls = 1;
  while (rounds.size() < kRounds) {
    const absl::Time begin = absl::Now();
    absl::Status status;
    for (int i = 0; i < calls && status.ok(); ++i) status = launch();
    if (status.ok()) status = bench.stream->Synchronize();
    if (!status.ok()) return status;
    const absl::Duration took = absl::Now() - begin;
    if (took < kRound && calls < 100000) {
      calls *= 2;
      rounds.clear();
      continue;
    }
    rounds.push_back(absl::ToDoubleSeconds(took) / calls);
  }
  std::sort(rounds.begin(), rounds.end());
  return rounds[kRounds / 2];
}

std::vector<std::byte> BytesOf(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * 4);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

Case SumOf(const Bench& bench, int inputs) {
  return {absl::StrFormat("sum of %d", inputs), (inputs + 1) * 4.0 * bench.n,
          [&bench, inputs] {
            std::vector<const float*> at;
            for (int i = 0; i < inputs; ++i) at.push_back(bench.In(i));
            return bench.device->kernels().sum(*bench.stream, at, bench.Out(), bench.n,
                                               bench.Judge());
          },
          bench.Out(),
          [&bench, inputs] {
            std::vector<const float*> at;
            for (int i = 0; i < inputs; ++i) at.push_back(bench.host[i].data());
            std::vector<float> out(bench.n);
            kernels::Cpu().sum(at, out.data(), bench.n);
            return BytesOf(out);
          }};
}

// The first update, from states of 0; `vectors` are read and written. The last input is a state, so
// sums come before.
Case UpdateOf(const Bench& bench, const std::string& name, OptimizerKind kind, int vectors) {
  const OptimizerParams params = {.kind = kind};
  const kernels::OptimizerStep step = {.lr = 0.01f, .decay = 5e-4f, .gradient_scale = 0.5f};
  float* const states[] = {reinterpret_cast<float*>(bench.payload.get()),
                           const_cast<float*>(bench.In(kInputs - 1))};
  const int count = StateVectors(kind);
  const auto launch = [&bench, params, step, first = states[0], second = states[1], count] {
    return bench.device->kernels().optimize(*bench.stream, params, step, bench.In(0), bench.In(1),
                                            bench.Out(), count > 0 ? first : nullptr,
                                            count > 1 ? second : nullptr, bench.n);
  };
  const auto prepare = [&bench, first = states[0], second = states[1]] {
    const absl::Status status = bench.stream->Fill(first, 0, bench.n * 4);
    return status.ok() ? bench.stream->Fill(second, 0, bench.n * 4) : status;
  };
  const auto expected = [&bench, params, step, count] {
    std::vector<float> first(bench.n), second(bench.n), out(bench.n);
    kernels::Cpu().optimize(params, step, bench.host[0].data(), bench.host[1].data(), out.data(),
                            count > 0 ? first.data() : nullptr, count > 1 ? second.data() : nullptr,
                            bench.n);
    return BytesOf(out);
  };
  return {name, vectors * 4.0 * bench.n, launch, bench.Out(), expected, prepare};
}

Case EncodeOf(const Bench& bench, const std::string& name, wire::Codec codec,
              DeviceDenseCodec DeviceKernels::*on_device,
              kernels::DenseCodec kernels::CodecKernels::*on_host) {
  const size_t bytes = wire::EncodedBytesMax(codec, bench.n);
  return {"encode " + name, 4.0 * bench.n + bytes,
          [&bench, on_device] {
            return (bench.device->kernels().*on_device)
                .encode(*bench.stream, bench.In(0), kernels::Feedback::kNone, nullptr, bench.n,
                        bench.payload.get(), bench.Judge());
          },
          bench.payload.get(),
          [&bench, on_host, bytes] {
            std::vector<std::byte> payload(bytes);
            (kernels::Cpu().codec.*on_host)
                .encode(bench.host[0].data(), kernels::Feedback::kNone, nullptr, bench.n,
                        payload.data());
            return payload;
          }};
}

// Decodes what the encoder before it has left.
Case DecodeOf(const Bench& bench, const std::string& name, wire::Codec codec,
              DeviceDenseCodec DeviceKernels::*on_device,
              kernels::DenseCodec kernels::CodecKernels::*on_host) {
  const size_t bytes = wire::EncodedBytesMax(codec, bench.n);
  return {"decode " + name, 4.0 * bench.n + bytes,
          [&bench, on_device] {
            return (bench.device->kernels().*on_device)
                .decode(*bench.stream, bench.payload.get(), nullptr, bench.Out(), bench.n);
          },
          bench.Out(),
          [&bench, on_host, bytes] {
            std::vector<std::byte> payload(bytes);
            std::vector<float> out(bench.n);
            const kernels::DenseCodec& dense = kernels::Cpu().codec.*on_host;
            dense.encode(bench.host[0].data(), kernels::Feedback::kNone, nullptr, bench.n,
                         payload.data());
            dense.decode(payload.data(), nullptr, out.data(), bench.n);
            return BytesOf(out);
          }};
}

std::vector<Case> MakeCases(const Bench& bench) {
  using kernels::CodecKernels;
  using wire::Codec;
  std::vector<Case> cases = {SumOf(bench, 1), SumOf(bench, 2), SumOf(bench, 4), SumOf(bench, 8)};
  struct Dense {
    const char* name;
    Codec codec;
    DeviceDenseCodec DeviceKernels::*on_device;
    kernels::DenseCodec CodecKernels::*on_host;
  };
  for (const Dense& dense :
       {Dense{"fp16", Codec::kFloat16, &DeviceKernels::float16, &CodecKernels::float16},
        Dense{"bf16", Codec::kBFloat16, &DeviceKernels::bfloat16, &CodecKernels::bfloat16},
        Dense{"int8", Codec::kInt8, &DeviceKernels::int8, &CodecKernels::int8},
        Dense{"1 bit", Codec::kOneBit, &DeviceKernels::one_bit, &CodecKernels::one_bit}}) {
    cases.push_back(EncodeOf(bench, dense.name, dense.codec, dense.on_device, dense.on_host));
    cases.push_back(DecodeOf(bench, dense.name, dense.codec, dense.on_device, dense.on_host));
  }
  cases.push_back(UpdateOf(bench, "update, momentum SGD", OptimizerKind::kMomentumSgd, 5));
  cases.push_back(UpdateOf(bench, "update, Adam", OptimizerKind::kAdam, 7));
  return cases;
}

// Checks that the device gives the CPU's bits.
absl::Status Verify(const Bench& bench, const Case& one) {
  absl::Status status = one.prepare ? one.prepare() : absl::OkStatus();
  if (status.ok()) status = one.launch();
  if (status.ok()) status = bench.stream->Synchronize();
  if (!status.ok()) return status;
  const std::vector<std::byte> expected = one.expected();
  std::vector<std::byte> got(expected.size());
  status = bench.stream->Copy(got.data(), one.result, got.size());
  if (status.ok()) status = bench.stream->Synchronize();
  if (status.ok() && got != expected) {
    status = absl::DataLossError(one.name + ": has other bits than the CPU's");
  }
  return status;
}

// Its rate, as a share of that of a copy which reads and writes as many bytes: what a launch costs
// weighs more with few.
absl::StatusOr<double> Measure(const Bench& bench, const Case& one) {
  if (absl::Status status = Verify(bench, one); !status.ok()) return status;
  const auto half = static_cast<size_t>(one.bytes / 2);
  const auto from = bench.device->Allocate(half, "what is copied");
  const auto to = bench.device->Allocate(half, "a copy");
  for (const auto* memory : {&from, &to}) {
    if (!memory->ok()) return memory->status();
  }
  const auto copy = [&] { return bench.stream->Copy(to->get(), from->get(), half); };
  const auto before = Seconds(bench, copy), seconds = Seconds(bench, one.launch),
             after = Seconds(bench, copy);
  for (const auto* time : {&before, &seconds, &after}) {
    if (!time->ok()) return time->status();
  }
  const double copied = 2.0 * half / ((*before + *after) / 2) / 1e9;
  const double rate = one.bytes / *seconds / 1e9;
  std::printf("%-22s %9.1f GB/s   %5.2f of copying, %.1f GB/s\n", one.name.c_str(), rate,
              rate / copied, copied);
  std::fflush(stdout);
  return rate / copied;
}

absl::Status RunAll(const std::shared_ptr<Devices>& devices, size_t mib) {
  auto device = devices->Use(0);
  if (!device.ok()) return device.status();
  absl::StatusOr<Bench> bench = Prepare(*device, mib << 18);
  if (!bench.ok()) return bench.status();
  std::printf("%s: %s; vectors of %zu MiB\n", devices->software().c_str(),
              (*device)->info().name.c_str(), mib);
  std::pair<double, std::string> least(INFINITY, "");
  for (const Case& one : MakeCases(*bench)) {
    const absl::StatusOr<double> share = Measure(*bench, one);
    if (!share.ok()) return share.status();
    least = std::min(least, {*share, one.name});
  }
  PrintGoal(
      absl::StrCat("kernels beside the device's own copies, the slowest (", least.second, ")"),
      least.first, Wanted::kAtLeast, 0.90);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  CLI::App app("Kernels of a device beside its own copies");
  std::string plugin;
  size_t mib = 100;
  app.add_option("plugin", plugin, "Plugin, as strata devices takes it")->required();
  app.add_option("--mib", mib, "MiB of a vector")->check(CLI::Range(1, 4096));
  CLI11_PARSE(app, argc, argv);
  auto devices = LoadPlugin(plugin);
  return ToExitStatus(devices.ok() ? RunAll(*devices, mib) : devices.status());
}

}  // namespace
}  // namespace strata::device

int main(int argc, char** argv) { return strata::device::Main(argc, argv); }
