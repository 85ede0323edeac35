#include "common/os/message_bounds.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "common/os/limits.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"

namespace strata {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr absl::string_view kPackage = "strata.proto.";

// No message contains itself, so the schema bounds the nesting; this is a guard.
constexpr int kDepthMax = 32;
// Bytes of unknown fields in one message.
constexpr size_t kUnknownBytesMax = 16 << 10;

constexpr size_t kName = 256;
constexpr size_t kAddress = 512;    // "tcp://HOST:PORT"
constexpr size_t kLongName = 1024;  // of a tensor, of an object of a checkpoint
constexpr size_t kPath = 4 << 10;
// Errors and reasons. Each process that forwards them adds a little, so the next one accepts more.
constexpr size_t kError = 16 << 10;
constexpr size_t kReason = 64 << 10;
constexpr size_t kPem = 64 << 10;
constexpr size_t kChain = 1 << 20;
constexpr size_t kSecret = 256;

constexpr size_t kNodes = 1024;  // of a job; also ranks
constexpr size_t kMany = 65536;  // jobs, daemons, peers
constexpr size_t kTensors = 256 << 10;

// Text for people: truncated rather than refused, see FitProse.
constexpr bool kProse = true;

struct Entry {
  absl::string_view field;
  FieldBound bound;
  bool is_prose = false;
};

constexpr Entry kBounds[] = {
    // job.proto
    {"Job.name", {1, kName}},
    {"Job.run_dir", {1, kPath}},
    {"Checkpoint.dir", {1, kPath}},
    {"Model.zoo", {1, kName}},
    {"Program.path", {1, kPath}},
    {"Program.args", {16384, kProgramBytesMax}},
    {"Program.env", {16384, kProgramBytesMax}},
    {"Idx.dir", {1, kPath}},
    {"Cifar10.dir", {1, kPath}},
    {"Step.boundaries_epochs", {4096}},
    {"Consistency.preset", {1, kName}},
    {"Consistency.preset_name", {1, kName}},
    {"Debug.delays", {kNodes}},
    // record.proto
    {"CheckpointObject.name", {1, kLongName}},
    {"CheckpointObject.buckets", {kBucketsMax}},
    {"Layout.segments", {kTensors}},
    {"Layout.tables", {kTablesMax}},
    {"Segment.name", {1, kLongName}},
    {"Table.name", {1, kLongName}},
    {"Segment.shape", {64}},
    {"View.nodes", {kNodes}},
    {"ViewChange.joined", {kNodes}},
    {"ViewChange.left", {kNodes}},
    {"Placement.shard_endpoints", {kShardsPerJobMax, kAddress}},
    {"Placement.shard_of_bucket", {kBucketsMax}},
    {"Placement.shard_of_chunk", {kChunksMax}},
    {"Placement.reason", {1, kReason}, kProse},
    {"Placement.backup_endpoints", {kShardsPerJobMax, kAddress}},
    {"Placement.shard_generations", {kShardsPerJobMax}},
    {"Ring.endpoints", {kNodes, kAddress}},
    {"JobRecord.nccl_id", {1, kSecret}},
    {"JobRecord.secret", {1, kSecret}},
    {"JobRecord.view_changes", {kMany}},
    {"Resume.dir", {1, kPath}},
    {"Resume.objects", {kMany}},
    {"Resume.object_of_chunk", {kChunksMax}},
    {"Resume.object_of_node", {kNodes}},
    {"Resume.object_of_rank", {kNodes}},
    // processes.proto
    {"Refusal.cause", {1, kName}},
    {"NodeActivity.ranks", {kNodes}},
    {"NodeActivity.shards", {kMany}},
    {"NodeActivity.phase", {1, kName}},
    {"NodeActivity.process_state", {1, kName}},
    {"RankActivity.process_state", {1, kName}},
    {"ShardActivity.address", {1, kAddress}},
    {"ShardActivity.error", {1, kError}, kProse},
    {"CheckpointPart.error", {1, kError}, kProse},
    {"CheckpointPart.pieces", {kMany}},
    {"NodeReady.run_dir", {1, kPath}},
    {"NodeReady.endpoint", {1, kAddress}},
    {"NodeReady.nccl_id", {1, kSecret}},
    {"RankReport.values", {1024, kName}},
    {"RankState.items", {kTensors}},
    {"StateItem.name", {1, kLongName}},
    {"StateItem.value", {1, kLongName}},
    {"NodeCounters.staleness", {4096}},
    {"TraceBatch.process", {1, kAddress}},
    {"TraceBatch.host", {1, kName}},
    {"TraceBatch.events", {kMany}},
    {"RingStopped.error", {1, kError}, kProse},
    {"RingStopped.nccl_id", {1, kSecret}},
    {"FormRing.nodes", {kNodes}},
    {"FormRing.nccl_id", {1, kSecret}},
    {"MoveShard.endpoint", {1, kAddress}},
    {"MoveShard.backup_endpoint", {1, kAddress}},
    {"ListenAt.host", {1, kAddress}},
    {"ListenAt.advertise", {1, kAddress}},
    {"Launch.node_name", {1, kName}},
    {"Launch.aggregator_socket", {1, kName}},
    {"Launch.run_dir", {1, kPath}},
    {"Launch.device_plugin", {1, kPath}},
    {"Launch.devices", {kNodes}},
    {"ChildMessage.failed", {1, kFailedBytesMax}, kProse},
    {"ChildMessage.damaged", {1, kFailedBytesMax}, kProse},
    {"NodeRefusals.refusals", {kNodes}},
    {"RankLost.text", {1, kFailedBytesMax}, kProse},
    // control.proto
    {"ResumeFrom.dir", {1, kPath}},
    {"ListJobsReply.jobs", {kMany}},
    {"ListNodesRequest.after", {1, kName}},
    {"ListNodesReply.daemons", {kMany}},
    {"ListNodesReply.cluster_id", {1, kName}},
    {"ListNodesReply.security", {1, kError}, kProse},
    {"DrainRequest.daemon", {1, kName}},
    {"DrainReply.jobs", {kMany}},
    {"DrainReply.note", {1, kReason}, kProse},
    {"DrainedJob.name", {1, kName}},
    {"DrainedJob.stays", {1, kReason}, kProse},
    {"JobStatus.name", {1, kName}},
    {"JobStatus.reason", {1, kReason}, kProse},
    {"JobStatus.mode", {1, kName}},
    {"JobStatus.model", {1, kPath}},
    {"JobStatus.exchange", {1, kName}},
    {"JobStatus.nodes", {kNodes}},
    {"JobStatus.shards", {kShardsPerJobMax}},
    {"JobStatus.run_dir", {1, kPath}},
    {"JobStatus.waits", {kMany}},
    {"JobStatus.placement", {1, kReason}, kProse},
    {"JobStatus.restarts", {kMany}},
    {"JobStatus.owner", {1, kName}},
    {"JobStatus.tenant", {1, kName}},
    {"JobStatus.replacements", {kMany}},
    {"JobStatus.nodes_changes", {kMany}},
    {"NodesChange.joined", {kNodes}},
    {"NodesChange.left", {kNodes}},
    {"NodesChange.reason", {1, kReason}, kProse},
    {"ReplacementStatus.from", {1, kName}},
    {"ReplacementStatus.to", {1, kName}},
    {"ReplacementStatus.reason", {1, kReason}, kProse},
    {"CheckpointStatus.problem", {1, kReason}, kProse},
    {"CheckpointStatus.resumed_dir", {1, kPath}},
    {"CheckpointStatus.passed_over", {kNodes, kReason}, kProse},
    {"RestartStatus.reason", {1, kReason}, kProse},
    {"Wait.daemon", {1, kName}},
    {"Wait.doing", {1, kReason}, kProse},
    {"Wait.text", {1, kReason}, kProse},
    {"JobNodeStatus.daemon", {1, kName}},
    {"JobNodeStatus.memory_parts", {64}},
    {"JobNodeStatus.gpu_memory_parts", {64}},
    {"MemoryPart.name", {1, kName}},
    {"JobShardStatus.daemon", {1, kName}},
    {"JobShardStatus.memory_parts", {64}},
    {"JobShardStatus.backup", {1, kName}},
    {"JobShardStatus.next_backup", {1, kName}},
    {"JobShardStatus.next_endpoint", {1, kAddress}},
    {"Progress.values", {1024, kName}},
    {"MetricsRecord.staleness", {4096}},
    {"MetricsRecord.values", {1024, kName}},
    {"DaemonStatus.name", {1, kName}},
    {"DaemonStatus.address", {1, kName}},
    {"DaemonStatus.shard_ports", {kShardsPerServerMax}},
    {"DaemonStatus.jobs", {kJobsHeldMax}},
    {"DaemonStatus.resources", {kNodes}},
    {"DaemonStatus.refusals", {kNodes}},
    {"DaemonStatus.peers", {kMany}},
    {"DaemonStatus.gpus", {kSlotsMax}},
    {"DaemonStatus.version", {1, kName}},
    {"Resource.name", {1, kName}},
    {"PeerReach.address", {1, kAddress}},
    {"PeerReach.name", {1, kName}},
    {"PeerReach.error", {1, kError}, kProse},
    {"RenewCertificate.request_pem", {1, kPem}},
    {"Register.name", {1, kName}},
    {"Register.address", {1, kName}},
    {"Register.shard_ports", {kShardsPerServerMax}},
    {"Register.running_jobs", {kJobsHeldMax}},
    {"Register.cluster_id", {1, kName}},
    {"Register.host", {1, kName}},
    {"Register.gpus", {kSlotsMax}},
    {"Register.version", {1, kName}},
    {"Gpu.name", {1, kName}},
    {"Heartbeat.jobs", {kMany}},
    {"Heartbeat.nodes", {kNodes}},
    {"Heartbeat.resources", {kNodes}},
    {"Heartbeat.refusals", {kNodes}},
    {"JobCounters.nodes", {kNodes}},
    {"JobCounters.backups", {kShardsPerJobMax}},
    {"PeersTried.peers", {kMany}},
    {"JobInstalled.error", {1, kError}, kProse},
    {"NodeFailed.reason", {1, kError}, kProse},
    {"CertificateRenewed.chain_pem", {1, kChain}},
    {"CertificateRenewed.roots_pem", {1, kChain}},
    {"CertificateRenewed.error", {1, kError}, kProse},
    {"TryPeers.peers", {kMany}},
    {"Registered.cluster_id", {1, kName}},
    {"Registered.authority", {1, kPem}},
    {"Rejected.reason", {1, kError}, kProse},
    {"ViewInstalled.error", {1, kError}, kProse},
    {"InstallJob.own_shards", {kShardsPerServerMax}},
    {"InstallJob.own_backups", {kShardsPerJobMax}},
    {"BackupInstalled.error", {1, kError}, kProse},
    {"FillNext.endpoint", {1, kAddress}},
    {"ShardNotMoved.error", {1, kError}, kProse},
    {"BackupReport.refusal", {1, kError}, kProse},
    {"StartNode.owner", {1, kName}},
    {"StopNode.reason", {1, kReason}, kProse},
    // keys.proto
    {"JoinRequest.secret", {1, kSecret}},
    {"JoinRequest.role", {1, kName}},
    {"JoinRequest.name", {1, kName}},
    {"JoinRequest.request_pem", {1, kPem}},
    {"RenewRequest.request_pem", {1, kPem}},
    {"IssuedCertificate.chain_pem", {1, kChain}},
    {"IssuedCertificate.roots_pem", {1, kChain}},
    {"MakeTokenRequest.roles", {16, kName}},
    {"MakeTokenRequest.name", {1, kName}},
    {"UserGrant.namespace", {1, kName}},
    {"MakeTokenReply.token", {1, kLongName}},
    {"ListKeysRequest.after_role", {1, kName}},
    {"ListKeysRequest.after_name", {1, kName}},
    {"ListKeysReply.cluster", {1, kName}},
    {"ListKeysReply.authority", {1, kName}},
    {"ListKeysReply.keys", {kMany}},
    {"ListKeysReply.tokens", {kMany}},
    {"RevokeRequest.role", {1, kName}},
    {"RevokeRequest.name", {1, kName}},
    {"RevokeReply.identity", {1, kAddress}},
    {"IssuedKey.role", {1, kName}},
    {"IssuedKey.name", {1, kName}},
    {"IssuedKey.authority", {1, kName}},
    {"OpenToken.secret_hash", {1, kSecret}},
    {"OpenToken.roles", {16, kName}},
    {"OpenToken.name", {1, kName}},
    {"KeyBookRecord.keys", {kMany}},
    {"KeyBookRecord.tokens", {kMany}},
    // logs.proto
    {"LogLinesWanted.grep", {1, 2048}},
    {"ReadLogs.ranks", {kMany}},
    {"ReadLogs.nodes", {kMany}},
    {"LogLines.lines", {1, 1 << 20}},
    {"LogLines.error", {1, kError}, kProse},
    {"LogsOffered.worker", {1, kName}},
    {"LogPart.lines", {1, 1 << 20}},
    {"LogPart.error", {1, kError}, kProse},
    {"LogsBegin.run_dir", {1, kPath}},
    {"LogsBegin.processes", {kMany}},
    // policy.proto
    {"ClusterPolicy.users", {kMany}},
    {"UserPolicy.name", {1, kName}},
    {"UserPolicy.namespace", {1, kName}},
    {"UserPolicy.path_prefixes", {1024, kPath}},
    // cluster.proto
    {"Cluster.name", {1, kName}},
    {"Cluster.nodes", {1024}},
    {"Cluster.site_links", {4096}},
    {"NodeGroup.name", {1, kName}},
    {"NodeGroup.site", {1, kName}},
    {"Compute.trace_file", {1, kPath}},
    {"Servers.site", {1, kName}},
    {"SiteLink.sites", {16, kName}},
};

// Messages that are also limited as a whole.
struct Total {
  absl::string_view message;
  size_t bytes_max;
  const char* what;
};
constexpr Total kTotals[] = {
    {"ChildMessage", kControlMessageBytesMax, ""},
    {"Program", kProgramBytesMax, " of path, arguments and environment"},
    {"Job", kJobBytesMax, ""},
    {"JobRecord", kJobRecordBytesMax, ""},
    {"SubmitRequest", kSubmitBytesMax, ""},
};

// The fields that CheckBounds checks in messages of one type.
struct Plan {
  struct Field {
    const FieldDescriptor* field;
    FieldBound bound;
    bool is_bounded;    // has a bound in the table
    bool has_text;      // string: no NUL
    bool has_bytes;     // string or bytes
    bool has_messages;  // each of which is checked
    bool is_prose;
  };
  std::vector<Field> fields;
  const Total* total = nullptr;
};

bool IsString(const FieldDescriptor* field) {
  return field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
}

absl::string_view WithoutPackage(absl::string_view name) {
  return absl::StripPrefix(name, kPackage);
}

bool IsProse(absl::string_view field) {
  return std::any_of(std::begin(kBounds), std::end(kBounds),
                     [&](const Entry& entry) { return entry.is_prose && entry.field == field; });
}

Plan MakePlan(const Descriptor* type) {
  Plan plan;
  // Keys and values of a map share the map's limit.
  const bool is_entry = type->options().map_entry();
  std::string of_map;
  if (is_entry) {
    const Descriptor* holder = type->containing_type();
    for (int i = 0; holder != nullptr && i < holder->field_count(); ++i) {
      if (holder->field(i)->message_type() == type) of_map = holder->field(i)->full_name();
    }
  }
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    const bool has_messages = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (!field->is_repeated() && !IsString(field) && !has_messages) continue;
    std::optional<FieldBound> bound =
        BoundOf(WithoutPackage(is_entry ? of_map : std::string(field->full_name())));
    if (is_entry && bound.has_value()) bound->count_max = 1;
    const bool needs_bound = field->is_repeated() || IsString(field);
    plan.fields.push_back({.field = field,
                           .bound = bound.value_or(FieldBound{}),
                           .is_bounded = bound.has_value() || !needs_bound,
                           .has_text = field->type() == FieldDescriptor::TYPE_STRING,
                           .has_bytes = IsString(field),
                           .has_messages = has_messages,
                           .is_prose = IsProse(WithoutPackage(field->full_name()))});
  }
  for (const Total& total : kTotals) {
    if (WithoutPackage(type->full_name()) == total.message) plan.total = &total;
  }
  return plan;
}

// Plans are made once per type and kept.
const Plan& PlanOf(const Descriptor* type) {
  struct Kept {
    absl::Mutex mutex;
    absl::flat_hash_map<const Descriptor*, std::unique_ptr<const Plan>> plans
        ABSL_GUARDED_BY(mutex);
  };
  static Kept& kept = *std::make_unique<Kept>().release();  // outlives all threads
  {
    absl::ReaderMutexLock lock(&kept.mutex);
    const auto found = kept.plans.find(type);
    if (found != kept.plans.end()) return *found->second;
  }
  auto made = std::make_unique<const Plan>(MakePlan(type));
  absl::MutexLock lock(&kept.mutex);
  return *kept.plans.try_emplace(type, std::move(made)).first->second;
}

// A message's path within the outermost one, made into text on demand.
struct Place {
  const Place* outer = nullptr;
  const FieldDescriptor* field = nullptr;
  int index = -1;  // in a list

  std::string Text() const {
    if (field == nullptr) return "";
    const std::string before = outer == nullptr ? "" : outer->Text();
    return absl::StrCat(before, before.empty() ? "" : ".", std::string(field->name()),
                        index < 0 ? "" : absl::StrCat("[", index, "]"));
  }
};

absl::Status TooMuch(const std::string& where, size_t count, const char* unit, size_t max) {
  return absl::InvalidArgumentError(
      absl::StrCat(where, " has ", count, " ", unit, ", at most ", max, " are possible"));
}

// A message without a path is named by its type.
std::string NameOf(const Place& place, const Message& message) {
  std::string name = place.Text();
  return name.empty() ? std::string(WithoutPackage(message.GetDescriptor()->full_name())) : name;
}

absl::Status CheckString(const std::string& text, const Plan::Field& field, const Place& place) {
  if (text.size() > field.bound.bytes_max) {
    return TooMuch(place.Text(), text.size(), "bytes", field.bound.bytes_max);
  }
  if (field.has_text && text.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(place.Text(), " has a NUL byte"));
  }
  return absl::OkStatus();
}

absl::Status CheckMessage(const Message& message, const Place& place, int depth);

absl::Status CheckElement(const Message& message, const Plan::Field& field, int index,
                          const Place& place, int depth) {
  const Reflection& reflection = *message.GetReflection();
  if (field.has_bytes) {
    std::string scratch;
    const std::string& text =
        index < 0 ? reflection.GetStringReference(message, field.field, &scratch)
                  : reflection.GetRepeatedStringReference(message, field.field, index, &scratch);
    return CheckString(text, field, place);
  }
  const Message& inner = index < 0 ? reflection.GetMessage(message, field.field)
                                   : reflection.GetRepeatedMessage(message, field.field, index);
  return CheckMessage(inner, place, depth + 1);
}

absl::Status CheckField(const Message& message, const Plan::Field& field, const Place& outer,
                        int depth) {
  const Reflection& reflection = *message.GetReflection();
  Place place{&outer, field.field};
  if (!field.field->is_repeated()) {
    if (field.has_messages && !reflection.HasField(message, field.field)) return absl::OkStatus();
    if (!field.is_bounded) return absl::InternalError(place.Text() + " has no bound");
    return CheckElement(message, field, -1, place, depth);
  }
  const int count = reflection.FieldSize(message, field.field);
  if (count == 0) return absl::OkStatus();
  if (!field.is_bounded) return absl::InternalError(place.Text() + " has no bound");
  if (static_cast<size_t>(count) > field.bound.count_max) {
    return TooMuch(place.Text(), count, "elements", field.bound.count_max);
  }
  if (!field.has_bytes && !field.has_messages) return absl::OkStatus();
  for (int i = 0; i < count; ++i) {
    place.index = i;
    absl::Status status = CheckElement(message, field, i, place, depth);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckMessage(const Message& message, const Place& place, int depth) {
  if (depth > kDepthMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(NameOf(place, message), " nests deeper than ", kDepthMax, " messages"));
  }
  const auto& unknown = message.GetReflection()->GetUnknownFields(message);
  if (!unknown.empty() && unknown.SpaceUsedExcludingSelfLong() > kUnknownBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(NameOf(place, message), " has fields of another version that take more than ",
                     kUnknownBytesMax, " bytes"));
  }
  const Plan& plan = PlanOf(message.GetDescriptor());
  for (const Plan::Field& field : plan.fields) {
    absl::Status status = CheckField(message, field, place, depth);
    if (!status.ok()) return status;
  }
  if (plan.total == nullptr) return absl::OkStatus();
  const size_t bytes = message.ByteSizeLong();
  if (bytes <= plan.total->bytes_max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(NameOf(place, message), " has ", bytes, " bytes",
                                                 plan.total->what, ", at most ",
                                                 plan.total->bytes_max, " are possible"));
}

}  // namespace

std::optional<FieldBound> BoundOf(absl::string_view field) {
  static const auto& bounds = *[] {
    auto made = std::make_unique<absl::flat_hash_map<absl::string_view, FieldBound>>();
    for (const Entry& entry : kBounds) made->emplace(entry.field, entry.bound);
    return made.release();
  }();
  const auto found = bounds.find(field);
  if (found == bounds.end()) return std::nullopt;
  return found->second;
}

std::vector<std::pair<absl::string_view, FieldBound>> AllBounds() {
  std::vector<std::pair<absl::string_view, FieldBound>> all;
  for (const Entry& entry : kBounds) all.emplace_back(entry.field, entry.bound);
  return all;
}

absl::Status CheckBounds(const Message& message) { return CheckMessage(message, Place(), 0); }

namespace {

void FitField(const Plan::Field& field, Message* message) {
  const Reflection& reflection = *message->GetReflection();
  const bool is_list = field.field->is_repeated();
  const int count = is_list ? reflection.FieldSize(*message, field.field) : 1;
  for (int i = 0; i < count; ++i) {
    std::string text = is_list ? reflection.GetRepeatedString(*message, field.field, i)
                               : reflection.GetString(*message, field.field);
    const bool fits = text.size() <= field.bound.bytes_max && text.find('\0') == std::string::npos;
    if (fits) continue;
    FitText(field.bound.bytes_max, &text);
    if (is_list) {
      reflection.SetRepeatedString(message, field.field, i, std::move(text));
    } else {
      reflection.SetString(message, field.field, std::move(text));
    }
  }
}

void FitDown(Message* message, int depth) {
  if (depth > kDepthMax) return;
  const Reflection& reflection = *message->GetReflection();
  for (const Plan::Field& field : PlanOf(message->GetDescriptor()).fields) {
    if (field.is_prose) FitField(field, message);
    if (!field.has_messages || field.field->is_map()) continue;
    if (field.field->is_repeated()) {
      const int count = reflection.FieldSize(*message, field.field);
      // Larger lists are refused as they are.
      if (static_cast<size_t>(count) > field.bound.count_max) continue;
      for (int i = 0; i < count; ++i) {
        FitDown(reflection.MutableRepeatedMessage(message, field.field, i), depth + 1);
      }
    } else if (reflection.HasField(*message, field.field)) {
      FitDown(reflection.MutableMessage(message, field.field), depth + 1);
    }
  }
}

// Returns the limit of the field at "job.run_dir" in a message of that type.
std::optional<FieldBound> BoundOfPath(const Descriptor* type, const std::string& path) {
  const FieldDescriptor* field = nullptr;
  for (const absl::string_view name : absl::StrSplit(path, '.')) {
    field = type == nullptr ? nullptr : type->FindFieldByName(std::string(name));
    if (field == nullptr) return std::nullopt;
    type = field->message_type();
  }
  return BoundOf(WithoutPackage(field->full_name()));
}

// Returns the field with most of a message's bytes on the wire, and their number: "job.run_dir".
// Looks only at the tags and lengths on the path.
std::pair<std::string, size_t> LargestField(const Descriptor* type, absl::string_view wire) {
  std::string path;
  size_t bytes = wire.size();
  for (int depth = 0; type != nullptr && depth < kDepthMax; ++depth) {
    google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(wire.data()),
                                              static_cast<int>(wire.size()));
    std::map<int, size_t> bytes_of;
    std::map<int, absl::string_view> largest_of;
    while (const uint32_t tag = in.ReadTag()) {
      if (google::protobuf::internal::WireFormatLite::GetTagWireType(tag) !=
          google::protobuf::internal::WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
        if (!google::protobuf::internal::WireFormatLite::SkipField(&in, tag)) break;
        continue;
      }
      int length = 0;
      if (!in.ReadVarintSizeAsInt(&length)) break;
      const int at = in.CurrentPosition();
      if (!in.Skip(length)) break;
      const int number = google::protobuf::internal::WireFormatLite::GetTagFieldNumber(tag);
      bytes_of[number] += length;
      absl::string_view& largest = largest_of[number];
      if (largest.size() < static_cast<size_t>(length)) largest = wire.substr(at, length);
    }
    const auto most =
        std::max_element(bytes_of.begin(), bytes_of.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    const FieldDescriptor* field =
        most == bytes_of.end() ? nullptr : type->FindFieldByNumber(most->first);
    if (field == nullptr) break;
    absl::StrAppend(&path, path.empty() ? "" : ".", std::string(field->name()));
    bytes = most->second;
    wire = largest_of[most->first];
    // In a list of messages, none of them dominates.
    type = field->is_repeated() ? nullptr : field->message_type();
  }
  return {path, bytes};
}

}  // namespace

void FitProse(Message* message) { FitDown(message, 0); }

absl::Status ParseBounded(absl::string_view wire, Message* message) {
  const Total* const total = PlanOf(message->GetDescriptor()).total;
  const size_t bytes_max = total == nullptr ? kRequestBytesMax : total->bytes_max;
  const std::string name(WithoutPackage(message->GetDescriptor()->full_name()));
  if (wire.size() > bytes_max) {
    const auto [field, bytes] = LargestField(message->GetDescriptor(), wire);
    if (field.empty()) return TooMuch(name, wire.size(), "bytes", bytes_max);
    const std::optional<FieldBound> bound = BoundOfPath(message->GetDescriptor(), field);
    if (bound.has_value() && bound->bytes_max > 0 && bound->count_max == 1) {
      return TooMuch(field, bytes, "bytes", bound->bytes_max);
    }
    return absl::InvalidArgumentError(absl::StrCat(field, " has ", bytes, " of the ", wire.size(),
                                                   " bytes of a ", name, ", at most ", bytes_max,
                                                   " are possible"));
  }
  if (!message->ParseFromArray(wire.data(), static_cast<int>(wire.size()))) {
    return absl::InvalidArgumentError(absl::StrCat("the bytes are not a ", name));
  }
  return CheckBounds(*message);
}

void FitText(size_t bytes_max, std::string* text) {
  constexpr absl::string_view kCut = "...";
  std::replace(text->begin(), text->end(), '\0', '?');
  if (text->size() <= bytes_max) return;
  size_t end = bytes_max - std::min(bytes_max, kCut.size());
  // Not within a UTF-8 character.
  while (end > 0 && (static_cast<unsigned char>((*text)[end]) & 0xc0) == 0x80) --end;
  text->resize(end);
  absl::StrAppend(text, kCut.substr(0, bytes_max - end));
}

}  // namespace strata
