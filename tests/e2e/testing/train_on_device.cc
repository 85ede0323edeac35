// A user's program whose ranks compute on the host and exchange as their job says. Its gradients
// depend only on its weights, its rank and its step. Arguments: a folder for the final weights; the
// number of steps; the launch file.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "worker/client/client.h"
#include "worker/client/client_parts.h"

namespace strata::tests {
namespace {

constexpr uint64_t kElements = 1500;

// Faults of rank 1, selected by the job's name.
struct Misdeeds {
  bool spoils = false;  // its gradient is not finite in step kSpoiledStep
  bool uneven = false;  // it makes one step more than the others
};
constexpr int kSpoiledStep = 3;

absl::Status Train(client::Client* client, int steps, const Misdeeds& does) {
  std::vector<float> weights(kElements, 0.5f), gradients(kElements);
  client::Tensor tensor{.name = "w", .shape = {kElements}};
  tensor.weights = weights.data();
  tensor.gradients = gradients.data();
  if (auto index = client->Register(tensor); !index.ok()) return index.status();
  client->devices().Accept();
  if (auto index = client->Register({.name = "idle", .shape = {300}}); !index.ok()) {
    return index.status();
  }
  if (absl::Status status = client->Start({.samples_per_epoch = 100}); !status.ok()) return status;
  if (does.uneven) ++steps;
  for (int step = 0; step < steps; ++step) {
    if (absl::Status status = client->BeginStep(3 + client->rank()); !status.ok()) return status;
    if (absl::Status status = client->WaitAll(); !status.ok()) return status;
    for (size_t i = 0; i < kElements; ++i) {
      const auto angle = static_cast<float>(i + 11 * client->rank() + 101 * step);
      gradients[i] = 0.3f * weights[i] + std::sin(0.37f * angle);
    }
    if (does.spoils && step == kSpoiledStep) gradients[700] = INFINITY;
    if (absl::Status status = client->Publish(0); !status.ok()) return status;
    if (absl::Status status = client->FinishStep(); !status.ok()) return status;
    client::Report report;
    report.first_step = step;
    report.end_step = step + 1;
    report.samples = 3 + client->rank();
    report.wall_s = 1e-3;
    if (absl::Status status = client->Send(report); !status.ok()) return status;
  }
  return client->Finish();
}

absl::Status Run(const std::string& folder, int steps, const std::string& launch) {
  auto connected = client::Client::Connect(launch);
  if (!connected.ok()) return connected.status();
  client::Client* const client = connected->get();
  const auto is = [&](const char* what) {
    return client->rank() == 1 && folder.find(what) != std::string::npos;
  };
  absl::Status status = Train(client, steps, {.spoils = is("spoils"), .uneven = is("uneven")});
  if (!status.ok()) {
    // Unavailable: the job was stopped for another reason.
    if (!absl::IsUnavailable(status)) client->Fail(status);
    return status;
  }
  const auto weights = client->ReadWeights();
  if (!weights.ok()) return weights.status();
  std::ofstream out(absl::StrCat(folder, "/rank", client->rank(), ".weights"), std::ios::binary);
  out.write(reinterpret_cast<const char*>(weights->data()),
            static_cast<std::streamsize>(weights->size() * sizeof(float)));
  return out.good() ? absl::OkStatus() : absl::UnavailableError("the weights cannot be written");
}

}  // namespace
}  // namespace strata::tests

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const absl::Status status = strata::tests::Run(argv[1], std::atoi(argv[2]), argv[3]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
