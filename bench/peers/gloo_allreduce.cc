// Gloo's ring all-reduce over TCP, in place; its reduction is the vectorized one of peer.h.
//
// usage: gloo_allreduce PEER_OPTIONS --store DIR [--address IP]
#include <gloo/allreduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "bench/peers/peer.h"

namespace strata::bench {
namespace {

int Run(const PeerOptions& options, const std::string& store_path, const std::string& address) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = address;
  std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(store_path);
  auto context = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(options.rank),
                                                             static_cast<int>(options.nodes));
  context->connectFullMesh(store, device);
  auto step = [&](absl::Span<float> gradient, absl::Span<float>) -> absl::Status {
    gloo::AllreduceOptions all(context);
    all.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    all.setOutput(gradient.data(), gradient.size());
    all.setReduceFunction([](void* out, const void* a, const void* b, size_t n) {
      Add(static_cast<float*>(out), static_cast<const float*>(a), static_cast<const float*>(b), n);
    });
    try {
      gloo::allreduce(all);
    } catch (const std::exception& error) {
      return absl::UnavailableError(error.what());
    }
    return absl::OkStatus();
  };
  return RunPeer("gloo", options, /*in_place=*/true, step);
}

int Main(int argc, char** argv) {
  CLI::App app;
  PeerOptions options;
  std::string store, address = "127.0.0.1";
  AddPeerOptions(&app, &options);
  app.add_option("--store", store)->required();
  app.add_option("--address", address);
  CLI11_PARSE(app, argc, argv);
  try {
    return Run(options, store, address);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gloo: error: %s\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) { return strata::bench::Main(argc, argv); }
