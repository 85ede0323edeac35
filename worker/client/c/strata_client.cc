#include "worker/client/c/strata_client.h"

#include <unistd.h>
#include <xxh_x86dispatch.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/bytes.h"
#include "common/diverged.h"
#include "common/job/job.h"
#include "common/version.h"
#include "google/protobuf/util/json_util.h"
#include "proto/processes.pb.h"
#include "worker/client/c/client_calls.h"
#include "worker/client/c/convert.h"
#include "worker/client/c/process_guards.h"
#include "worker/client/c/strata_client_checkpoints.h"
#include "worker/client/c/strata_client_devices.h"
#include "worker/client/c/strata_client_views.h"
#include "worker/client/client.h"
#include "worker/client/client_parts.h"
#include "worker/client/connect/arena_client.h"
#include "worker/contract/launch.h"

namespace strata::client {
namespace {

// Returns the launch of a rank that is a whole job without a cluster, from the job's protobuf text.
// Errors: InvalidArgument naming the field.
absl::StatusOr<proto::Launch> LaunchAlone(const char* text) {
  absl::StatusOr<proto::Job> job = ParseJob(text, "job");
  if (!job.ok()) return job.status();
  if (job->name().empty()) job->set_name("alone");
  if (!job->has_program()) job->mutable_program()->set_path("alone");
  job->set_ranks(1);
  job->set_exchange(proto::Job::NONE);
  FillDefaults(&*job);
  if (absl::Status valid = ValidateJob(*job); !valid.ok()) return valid;
  proto::Launch launch;
  *launch.mutable_record()->mutable_job() = *std::move(job);
  launch.set_local_ranks(1);
  launch.set_channel_fd(-1);
  return launch;
}

}  // namespace
}  // namespace strata::client

namespace {

using strata::client::Client;
using strata::client::Run;
using strata::client::StepRanks;
using strata::client::Take;
using strata::client::Tensor;

strata_code Make(absl::StatusOr<strata::proto::Launch> launch, strata_client** client) {
  *client = nullptr;
  if (!launch.ok()) return Take(launch.status());
  auto made = std::make_unique<strata_client>();
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  auto printed =
      google::protobuf::util::MessageToJsonString(launch->record().job(), &made->job_json, options);
  if (!printed.ok()) return Take(absl::InternalError("the job cannot be written as JSON"));
  absl::StatusOr<std::unique_ptr<Client>> connected = strata::client::ConnectTo(*launch);
  if (!connected.ok()) return Take(connected.status());
  made->client = *std::move(connected);
  made->launch = *std::move(launch);
  *client = made.release();
  return STRATA_OK;
}

absl::Status ExpectTensor(const strata_client& client, int32_t tensor, const char* name) {
  if (tensor >= 0 && static_cast<size_t>(tensor) < client.tensors.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": no tensor ", tensor));
}

// Checks that the host may access the tensors.
absl::Status ExpectOnHost(strata_client* client, const char* name) {
  if (client->client->devices().device() == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(name, ": the rank's tensors are on its GPU: copy in a stream of the program's"));
}

absl::Status TakeAnswer(const absl::StatusOr<void*>& answer, void** to) {
  *to = answer.ok() ? *answer : nullptr;
  return answer.status();
}

absl::Status PublishValues(strata_client* client, int32_t tensor, const void* values,
                           strata_dtype dtype, double scale) {
  constexpr char kName[] = "strata_publish_values";
  if (absl::Status known = ExpectTensor(*client, tensor, kName); !known.ok()) return known;
  if (absl::Status host = ExpectOnHost(client, kName); !host.ok()) return host;
  if (absl::Status status = client->client->ExpectUnpublished(tensor); !status.ok()) return status;
  if (absl::Status status = client->client->Wait(tensor); !status.ok()) return status;
  absl::Status converted =
      strata::client::ToFloats(values, dtype, scale, client->client->Gradients(tensor));
  if (!converted.ok()) {
    return strata::Prefixed(absl::StrCat("\"", client->tensors[tensor].first, "\": "), converted);
  }
  return client->client->Publish(tensor);
}

absl::Status ReadWeights(strata_client* client, int32_t tensor, void* to, strata_dtype dtype) {
  constexpr char kName[] = "strata_read_weights";
  if (absl::Status known = ExpectTensor(*client, tensor, kName); !known.ok()) return known;
  if (absl::Status host = ExpectOnHost(client, kName); !host.ok()) return host;
  if (absl::Status status = client->client->Wait(tensor); !status.ok()) return status;
  return strata::client::FromFloats(client->client->Weights(tensor), dtype, to);
}

// Checks that the job and its nodes have started, and that the caller has room for the answer.
absl::Status ExpectStarted(const strata_client& client, const void* answer, const char* name) {
  if (answer == nullptr) return absl::InvalidArgumentError(absl::StrCat(name, ": ranks: is null"));
  if (client.has_started) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(name, ": before strata_start"));
}

void Write(const StepRanks& from, strata_step_ranks* to) {
  strata::client::WriteSized({.makes_it = from.makes_it ? 1 : 0,
                              .rank = from.rank,
                              .ranks = from.ranks,
                              .rank_steps_before = from.rank_steps_before},
                             to);
}

}  // namespace

extern "C" {

uint32_t strata_client_abi(void) { return STRATA_CLIENT_ABI; }
const char* strata_version(void) { return STRATA_VERSION; }
const char* strata_error_text(void) { return strata::client::ErrorText().c_str(); }

int strata_error_has_diverged(void) { return strata::client::ErrorHasDiverged() ? 1 : 0; }

strata_code strata_connect(const char* launch_file, strata_client** client) {
  return Make(strata::client::ReadLaunch(launch_file), client);
}

strata_code strata_connect_alone(const char* job, strata_client** client) {
  return Make(strata::client::LaunchAlone(job), client);
}

void strata_close(strata_client* client) {
  if (client == nullptr) return;
  if (client->guards_weights) strata::client::GuardWrites({});
  if (client->finishes_at_exit) strata::client::AtGoodExit(nullptr);
  // Another thread is in a call, and the process is about to exit: what that uses must stay.
  if (client->busy.exchange(true)) return;
  const std::unique_ptr<strata_client> owned(client);
  // The parent's connections and device are not this process's to close.
  if (owned->process == getpid()) return;
  static_cast<void>(owned->client.release());
  static_cast<void>(owned->device.release());
}

strata_code strata_on_wait(strata_client* client, strata_wait_check check, void* context) {
  return Run(client, "strata_on_wait", [&] {
    client->client->OnWait(check == nullptr ? std::function<bool()>()
                                            : [=] { return check(context) != 0; });
    return absl::OkStatus();
  });
}

uint32_t strata_rank(const strata_client* client) { return client->launch.rank(); }
uint32_t strata_ranks(const strata_client* client) { return client->launch.record().job().ranks(); }
uint32_t strata_local_rank(const strata_client* client) { return client->launch.local_rank(); }
uint32_t strata_local_ranks(const strata_client* client) { return client->launch.local_ranks(); }
const char* strata_job_json(const strata_client* client) { return client->job_json.c_str(); }
const char* strata_run_dir(const strata_client* client) { return client->launch.run_dir().c_str(); }

strata_code strata_register(strata_client* client, const strata_tensor* tensor, int32_t* index) {
  return Run(client, "strata_register", [&]() -> absl::Status {
    const strata_tensor from = strata::client::Sized(*tensor);
    Tensor to{.name = from.name == nullptr ? "" : from.name,
              .shape = {from.shape, from.shape + from.dimensions},
              .lr_multiplier = from.lr_multiplier,
              .decay_multiplier = from.decay_multiplier,
              .averaged = from.averaged != 0};
    uint64_t elements = 1;
    for (const uint64_t extent : to.shape) elements *= extent;
    const std::string name = to.name;
    absl::StatusOr<int> added = client->client->Register(std::move(to));
    if (!added.ok()) return added.status();
    client->tensors.emplace_back(name, elements);
    *index = *added;
    return absl::OkStatus();
  });
}

strata_code strata_allocate(strata_client* client) {
  return Run(client, "strata_allocate", [&] { return client->client->Allocate(); });
}

strata_code strata_start(strata_client* client, const strata_facts* facts) {
  return Run(client, "strata_start", [&] {
    const strata_facts from = strata::client::Sized(*facts);
    absl::Status started =
        client->client->Start({.samples_per_epoch = from.samples_per_epoch,
                               .total_steps = from.total_steps,
                               .takes_first_weights = from.takes_first_weights != 0,
                               .optimizer = from.optimizer == nullptr ? "" : from.optimizer,
                               .says_rates = from.says_rates != 0,
                               .can_resume = from.can_resume != 0,
                               .keeps_state = from.keeps_state != 0,
                               .samples_per_rank = from.samples_per_rank,
                               .marks_absent = from.marks_absent != 0});
    client->has_started |= started.ok();
    return started;
  });
}

strata_code strata_guard_weights(strata_client* client) {
  return Run(client, "strata_guard_weights", [&] {
    std::vector<strata::client::GuardedRange> ranges;
    for (size_t i = 0; i < client->tensors.size(); ++i) {
      const auto weights = client->client->Weights(static_cast<int>(i));
      ranges.push_back({weights.data(), weights.size() * sizeof(float), client->tensors[i].first});
    }
    strata::client::GuardWrites(std::move(ranges));
    client->guards_weights = true;
    return absl::OkStatus();
  });
}

float* strata_weights(strata_client* client, int32_t tensor) {
  return client->client->Weights(tensor).data();
}

float* strata_gradients(strata_client* client, int32_t tensor) {
  return client->client->Gradients(tensor).data();
}

uint64_t strata_elements(const strata_client* client, int32_t tensor) {
  return ExpectTensor(*client, tensor, "").ok() ? client->tensors[tensor].second : 0;
}

strata_code strata_begin_step(strata_client* client, uint32_t samples) {
  return Run(client, "strata_begin_step", [&] { return client->client->BeginStep(samples); });
}

strata_code strata_begin_step_at(strata_client* client, uint32_t samples, double rate) {
  return Run(client, "strata_begin_step_at",
             [&] { return client->client->BeginStepAt(samples, rate); });
}

strata_code strata_wait(strata_client* client, int32_t tensor) {
  return Run(client, "strata_wait", [&] { return client->client->Wait(tensor); });
}

strata_code strata_wait_all(strata_client* client) {
  return Run(client, "strata_wait_all", [&] { return client->client->WaitAll(); });
}

strata_code strata_publish(strata_client* client, int32_t tensor) {
  return Run(client, "strata_publish", [&] { return client->client->Publish(tensor); });
}

strata_code strata_publish_values(strata_client* client, int32_t tensor, const void* values,
                                  strata_dtype dtype, double scale) {
  return Run(client, "strata_publish_values",
             [&] { return PublishValues(client, tensor, values, dtype, scale); });
}

strata_code strata_read_weights(strata_client* client, int32_t tensor, void* to,
                                strata_dtype dtype) {
  return Run(client, "strata_read_weights", [&] { return ReadWeights(client, tensor, to, dtype); });
}

strata_code strata_accept_device(strata_client* client) {
  return Run(client, "strata_accept_device", [&] {
    client->client->devices().Accept();
    return absl::OkStatus();
  });
}

int32_t strata_device_index(strata_client* client) { return client->device->index(); }

strata_code strata_compute_in(strata_client* client, void* cuda_stream) {
  return Run(client, "strata_compute_in",
             [&] { return client->device->ComputeIn(cuda_stream, client->client->devices()); });
}

strata_code strata_device_stream(strata_client* client, void** cuda_stream) {
  return Run(client, "strata_device_stream",
             [&] { return TakeAnswer(client->device->StreamInUse(), cuda_stream); });
}

strata_code strata_copy(strata_client* client, void* to, const void* from, size_t bytes,
                        void* ready_in) {
  return Run(client, "strata_copy",
             [&] { return client->device->Copy(to, from, bytes, ready_in); });
}

strata_code strata_device_memory(strata_client* client, size_t bytes, void** memory) {
  return Run(client, "strata_device_memory",
             [&] { return TakeAnswer(client->device->Allocate(bytes), memory); });
}

strata_code strata_finish_step(strata_client* client) {
  return Run(client, "strata_finish_step", [&] { return client->client->FinishStep(); });
}

strata_code strata_finish(strata_client* client) {
  return Run(client, "strata_finish", [&] {
    if (std::exchange(client->finishes_at_exit, false)) strata::client::AtGoodExit(nullptr);
    return client->client->Finish();
  });
}

strata_code strata_keep_weights(strata_client* client) {
  return Run(client, "strata_keep_weights", [&]() -> absl::Status {
    if (absl::Status host = ExpectOnHost(client, "strata_keep_weights"); !host.ok()) return host;
    return client->client->KeepWeights();
  });
}

strata_code strata_finish_at_exit(strata_client* client) {
  return Run(client, "strata_finish_at_exit", [&] {
    client->client->OnWait(nullptr);
    // Not through strata_finish, which keeps an error's text; a process at its exit may no longer
    // have that.
    strata::client::AtGoodExit([client] {
      return client->busy ? absl::FailedPreconditionError("another thread is in a call of the job")
                          : client->client->Finish();
    });
    client->finishes_at_exit = true;
    return absl::OkStatus();
  });
}

strata_code strata_send_report(strata_client* client, const strata_report* report) {
  return Run(client, "strata_send_report", [&]() -> absl::Status {
    const strata_report from = strata::client::Sized(*report);
    std::map<std::string, double> values;
    for (uint32_t i = 0; i < from.value_count; ++i) {
      if (values.emplace(from.value_names[i], from.values[i]).second) continue;
      return absl::InvalidArgumentError(
          absl::StrFormat("value \"%s\": stands there twice", from.value_names[i]));
    }
    return client->client->Send({.first_step = from.first_step,
                                 .end_step = from.end_step,
                                 .samples = from.samples,
                                 .loss_sum = from.loss_sum,
                                 .wall_s = from.wall_s,
                                 .trained_s = from.trained_s,
                                 .has_test = from.has_test != 0,
                                 .test_accuracy = from.test_accuracy,
                                 .test_loss = from.test_loss,
                                 .final = from.final != 0,
                                 .values = std::move(values),
                                 .samples_per_epoch = from.samples_per_epoch,
                                 .epochs = from.epochs,
                                 .local_steps = from.local_steps,
                                 .local_steps_total = from.local_steps_total});
  });
}

uint64_t strata_checksum(const void* data, size_t bytes) { return XXH3_64bits(data, bytes); }

strata_code strata_send_state(strata_client* client, uint64_t step, const strata_state_item* items,
                              uint32_t count) {
  return Run(client, "strata_send_state", [&]() -> absl::Status {
    if (count > strata::client::kStateItemsMax) {
      return absl::InvalidArgumentError(absl::StrFormat("%d items of a state, at most %d", count,
                                                        strata::client::kStateItemsMax));
    }
    strata::client::State state = {.step = step};
    for (uint32_t i = 0; i < count; ++i) {
      const char* const value = items[i].value;
      state.items.push_back({items[i].name, items[i].checksum, value == nullptr ? "" : value});
    }
    return client->client->Send({.first_step = step, .end_step = step, .state = std::move(state)});
  });
}

void strata_fail(strata_client* client, const char* reason) {
  // Even while another thread is in a call, which may wait forever: this only sends.
  if (client == nullptr || client->process != getpid()) return;
  const std::string why = reason == nullptr ? "" : reason;
  client->client->Fail(client->has_diverged.load() ? strata::DivergedError(why)
                                                   : absl::UnknownError(why));
}

void strata_has_diverged(strata_client* client) {
  if (client != nullptr) client->has_diverged.store(true);
}

int strata_goes_on(const strata_client* client) {
  return client->launch.record().has_resume() ? 1 : 0;
}

uint64_t strata_first_step(const strata_client* client) { return client->client->first_step(); }

int strata_checkpoint_due(const strata_client* client) {
  return client->client->checkpoints().due() ? 1 : 0;
}

strata_code strata_give_state(strata_client* client, const void* state, size_t bytes) {
  return Run(client, "strata_give_state", [&] {
    if (state == nullptr && bytes > 0) return absl::InvalidArgumentError("state: is null");
    const char* const begin = state == nullptr ? "" : static_cast<const char*>(state);
    return client->client->checkpoints().Give(std::string(begin, bytes));
  });
}

strata_code strata_read_state(strata_client* client, uint32_t rank, const void** state,
                              size_t* bytes) {
  return Run(client, "strata_read_state", [&] {
    *state = nullptr;
    *bytes = 0;
    absl::StatusOr<strata::Bytes> read = client->client->checkpoints().Read(rank);
    if (!read.ok()) return read.status();
    client->state = *std::move(read);
    *state = client->state.data();
    *bytes = client->state.size();
    return absl::OkStatus();
  });
}

strata_code strata_ranks_at(strata_client* client, uint64_t step, strata_step_ranks* ranks) {
  constexpr char kName[] = "strata_ranks_at";
  return Run(client, kName, [&] {
    if (absl::Status status = ExpectStarted(*client, ranks, kName); !status.ok()) return status;
    const absl::StatusOr<StepRanks> found = client->client->views().At(step);
    if (!found.ok()) return found.status();
    Write(*found, ranks);
    return absl::OkStatus();
  });
}

strata_code strata_ranks_at_if_known(strata_client* client, uint64_t step, int* known,
                                     strata_step_ranks* ranks) {
  constexpr char kName[] = "strata_ranks_at_if_known";
  return Run(client, kName, [&] {
    if (known == nullptr)
      return absl::InvalidArgumentError(absl::StrCat(kName, ": known: is null"));
    *known = 0;
    if (absl::Status status = ExpectStarted(*client, ranks, kName); !status.ok()) return status;
    const absl::StatusOr<std::optional<StepRanks>> found = client->client->views().AtIfKnown(step);
    if (!found.ok()) return found.status();
    if (!found->has_value()) return absl::OkStatus();
    *known = 1;
    Write(**found, ranks);
    return absl::OkStatus();
  });
}

}  // extern "C"
