#include "common/job/job.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/job/consistency.h"
#include "common/job/encoding.h"
#include "common/job/number_check.h"
#include "common/job/program_optimizer.h"
#include "common/text_error.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "proto/job.pb.h"

namespace strata {
namespace {

constexpr float kMomentum = 0.9f;
constexpr float kBeta1 = 0.9f;
constexpr float kBeta2 = 0.999f;
constexpr float kEpsilon = 1e-8f;

void FillSynthetic(proto::Synthetic* data) {
  if (data->classes() == 0) data->set_classes(10);
  if (data->channels() == 0) data->set_channels(1);
  if (data->height() == 0) data->set_height(28);
  if (data->width() == 0) data->set_width(28);
  if (data->train_samples() == 0) data->set_train_samples(4096);
  if (data->test_samples() == 0) data->set_test_samples(512);
}

void FillSyntheticImageNet(proto::SyntheticImageNet* data) {
  if (data->classes() == 0) data->set_classes(1000);
  if (data->size() == 0) data->set_size(224);
  if (data->train_samples() == 0) data->set_train_samples(1281167);
  if (data->test_samples() == 0) data->set_test_samples(512);
}

template <typename MomentumKind>
void FillMomentum(MomentumKind* optimizer) {
  if (!optimizer->has_momentum()) optimizer->set_momentum(kMomentum);
  if (!optimizer->has_weight_decay()) optimizer->set_weight_decay(0.0f);
}

template <typename AdamKind>
void FillAdam(float weight_decay, AdamKind* optimizer) {
  if (!optimizer->has_beta1()) optimizer->set_beta1(kBeta1);
  if (!optimizer->has_beta2()) optimizer->set_beta2(kBeta2);
  if (!optimizer->has_epsilon()) optimizer->set_epsilon(kEpsilon);
  if (!optimizer->has_weight_decay()) optimizer->set_weight_decay(weight_decay);
}

void FillLars(proto::Lars* optimizer) {
  if (!optimizer->has_momentum()) optimizer->set_momentum(kMomentum);
  if (!optimizer->has_weight_decay()) optimizer->set_weight_decay(5e-4f);
  if (!optimizer->has_coefficient()) optimizer->set_coefficient(1e-3f);
}

// Akiba et al. 2017, section 3.2.
void FillRmspropWarmup(proto::RmspropWarmup* optimizer) {
  if (!optimizer->has_momentum()) optimizer->set_momentum(kMomentum);
  if (!optimizer->has_decay()) optimizer->set_decay(0.99f);
  if (!optimizer->has_epsilon()) optimizer->set_epsilon(kEpsilon);
  if (!optimizer->has_rms_lr()) optimizer->set_rms_lr(3e-4f);
  if (!optimizer->has_center_epochs()) optimizer->set_center_epochs(10);
  if (!optimizer->has_width_epochs()) optimizer->set_width_epochs(5);
  if (!optimizer->has_weight_decay()) optimizer->set_weight_decay(0.0f);
}

void FillAdagrad(proto::Adagrad* optimizer) {
  if (!optimizer->has_epsilon()) optimizer->set_epsilon(1e-10f);
  if (!optimizer->has_initial_accumulator()) optimizer->set_initial_accumulator(0.0f);
  if (!optimizer->has_weight_decay()) optimizer->set_weight_decay(0.0f);
}

void FillFtrl(proto::Ftrl* optimizer) {
  if (!optimizer->has_l1()) optimizer->set_l1(0.0f);
  if (!optimizer->has_l2()) optimizer->set_l2(0.0f);
  if (!optimizer->has_beta()) optimizer->set_beta(1.0f);
  if (!optimizer->has_weight_decay()) optimizer->set_weight_decay(0.0f);
}

void FillOptimizer(proto::Optimizer* optimizer) {
  switch (optimizer->kind_case()) {
    case proto::Optimizer::kSgd:
      if (!optimizer->sgd().has_weight_decay()) optimizer->mutable_sgd()->set_weight_decay(0.0f);
      return;
    case proto::Optimizer::KIND_NOT_SET:
    case proto::Optimizer::kMomentumSgd:
      return FillMomentum(optimizer->mutable_momentum_sgd());
    case proto::Optimizer::kNesterov:
      return FillMomentum(optimizer->mutable_nesterov());
    case proto::Optimizer::kAdam:
      return FillAdam(0.0f, optimizer->mutable_adam());
    case proto::Optimizer::kAdamw:
      return FillAdam(0.01f, optimizer->mutable_adamw());
    case proto::Optimizer::kLars:
      return FillLars(optimizer->mutable_lars());
    case proto::Optimizer::kMean:
    case proto::Optimizer::kFromProgram:
      return;
    case proto::Optimizer::kRmspropWarmup:
      return FillRmspropWarmup(optimizer->mutable_rmsprop_warmup());
    case proto::Optimizer::kAdagrad:
      return FillAdagrad(optimizer->mutable_adagrad());
    case proto::Optimizer::kFtrl:
      return FillFtrl(optimizer->mutable_ftrl());
  }
}

void FillSchedule(proto::Schedule* schedule) {
  if (!schedule->has_base_lr()) schedule->set_base_lr(0.05f);
  if (schedule->shape_case() == proto::Schedule::SHAPE_NOT_SET) schedule->mutable_constant();
  if (schedule->has_step() && !schedule->step().has_gamma()) {
    schedule->mutable_step()->set_gamma(0.1f);
  }
}

}  // namespace

void FillDefaults(proto::Job* job) {
  if (job->has_data()) {
    proto::Data* data = job->mutable_data();
    if (data->batch_per_rank() == 0) data->set_batch_per_rank(64);
    if (data->has_synthetic()) FillSynthetic(data->mutable_synthetic());
    if (data->has_synthetic_imagenet()) {
      FillSyntheticImageNet(data->mutable_synthetic_imagenet());
    }
  }
  FillEncodings(job);
  // DGC's momentum is on the nodes.
  const bool has_optimizer = job->optimizer().kind_case() != proto::Optimizer::KIND_NOT_SET;
  if (!has_optimizer && job->push().codec() == proto::Encoding::DGC) {
    job->mutable_optimizer()->mutable_sgd();
  }
  FillOptimizer(job->mutable_optimizer());
  FillSchedule(job->mutable_schedule());
  FillConsistency(job->mutable_consistency());
  if (job->rows().has_consistency()) FillConsistency(job->mutable_rows()->mutable_consistency());
  if (job->ranks() == 0) job->set_ranks(1);
  if (job->ranks_min() == 0 && DropsLost(*job)) job->set_ranks_min(job->ranks_per_node());
  if (job->ranks_min() == 0 && job->ranks_max() > 0) job->set_ranks_min(job->ranks());
  if (job->ranks_max() == 0 && job->ranks_min() > 0) job->set_ranks_max(job->ranks());
  if (job->epochs() == 0 && job->max_steps() == 0) job->set_epochs(1);
  if (job->seed() == 0) job->set_seed(1);
  if (job->window() == 0) job->set_window(4);
  if (job->connections() == 0) job->set_connections(1);
  proto::Evaluation* evaluation = job->mutable_evaluation();
  if (evaluation->every_epochs() == 0 && evaluation->every_steps() == 0) {
    evaluation->set_every_epochs(1);
  }
  if (job->has_checkpoint() && job->checkpoint().keep() == 0)
    job->mutable_checkpoint()->set_keep(2);
  if (job->has_restart() && !job->restart().has_within_hours()) {
    job->mutable_restart()->set_within_hours(1);
  }
  if (job->has_replace()) {
    proto::Replace* replace = job->mutable_replace();
    if (replace->patience_s() == 0) replace->set_patience_s(300);
    if (!replace->has_hang_after_s()) replace->set_hang_after_s(60);
  }
  if (job->metrics().every_steps() == 0) job->mutable_metrics()->set_every_steps(50);
  if (job->rank_log_bytes() == 0 && job->exchange() != proto::Job::MPI) {
    job->set_rank_log_bytes(kRankLogBytes);
  }
}

OptimizerParams MakeOptimizerParams(const proto::Optimizer& optimizer) {
  switch (optimizer.kind_case()) {
    case proto::Optimizer::kSgd:
      return {.kind = OptimizerKind::kSgd, .weight_decay = optimizer.sgd().weight_decay()};
    case proto::Optimizer::KIND_NOT_SET:
    case proto::Optimizer::kMomentumSgd:
      return {.kind = OptimizerKind::kMomentumSgd,
              .momentum = optimizer.momentum_sgd().momentum(),
              .weight_decay = optimizer.momentum_sgd().weight_decay()};
    case proto::Optimizer::kNesterov:
      return {.kind = OptimizerKind::kNesterov,
              .momentum = optimizer.nesterov().momentum(),
              .weight_decay = optimizer.nesterov().weight_decay()};
    case proto::Optimizer::kAdam:
      return {.kind = OptimizerKind::kAdam,
              .beta1 = optimizer.adam().beta1(),
              .beta2 = optimizer.adam().beta2(),
              .epsilon = optimizer.adam().epsilon(),
              .weight_decay = optimizer.adam().weight_decay()};
    case proto::Optimizer::kAdamw:
      return {.kind = OptimizerKind::kAdamW,
              .beta1 = optimizer.adamw().beta1(),
              .beta2 = optimizer.adamw().beta2(),
              .epsilon = optimizer.adamw().epsilon(),
              .weight_decay = optimizer.adamw().weight_decay()};
    case proto::Optimizer::kLars:
      return {.kind = OptimizerKind::kMomentumSgd,
              .momentum = optimizer.lars().momentum(),
              .weight_decay = optimizer.lars().weight_decay()};
    case proto::Optimizer::kAdagrad:
      return {.kind = OptimizerKind::kAdagrad,
              .epsilon = optimizer.adagrad().epsilon(),
              .weight_decay = optimizer.adagrad().weight_decay(),
              .initial_accumulator = optimizer.adagrad().initial_accumulator()};
    case proto::Optimizer::kFtrl:
      return {.kind = OptimizerKind::kFtrl,
              .weight_decay = optimizer.ftrl().weight_decay(),
              .l1 = optimizer.ftrl().l1(),
              .l2 = optimizer.ftrl().l2(),
              .beta = optimizer.ftrl().beta()};
    case proto::Optimizer::kMean:
      return {.kind = OptimizerKind::kMean};
    case proto::Optimizer::kFromProgram:  // unknown so far: nothing is updated before it is known
      return {.kind = OptimizerKind::kMean};
    case proto::Optimizer::kRmspropWarmup:
      return {.kind = OptimizerKind::kRmspropWarmup,
              .momentum = optimizer.rmsprop_warmup().momentum(),
              .beta2 = optimizer.rmsprop_warmup().decay(),
              .epsilon = optimizer.rmsprop_warmup().epsilon(),
              .weight_decay = optimizer.rmsprop_warmup().weight_decay(),
              .rms_lr = optimizer.rmsprop_warmup().rms_lr(),
              .center_epochs = optimizer.rmsprop_warmup().center_epochs(),
              .width_epochs = optimizer.rmsprop_warmup().width_epochs()};
  }
  return {};
}

uint64_t RowBytesPerStep(const proto::Job& job) {
  constexpr uint64_t kDefault = 16 << 20;
  return job.rows().bytes_per_step() > 0 ? job.rows().bytes_per_step() : kDefault;
}

uint32_t RowsLookahead(const proto::Job& job) {
  return std::max<uint32_t>(1, job.rows().lookahead());
}

const proto::Consistency& RowsConsistency(const proto::Job& job) {
  return job.rows().has_consistency() ? job.rows().consistency() : job.consistency();
}

uint32_t SamplesPerRank(const proto::Job& job) {
  return job.has_program() ? job.program().samples_per_rank() : job.data().batch_per_rank();
}

proto::Schedule JobSchedule(const proto::Job& job) {
  proto::Schedule schedule = job.schedule();
  if (schedule.base_batch() == 0) return schedule;
  const double batch = static_cast<double>(job.ranks()) * SamplesPerRank(job);
  schedule.set_base_lr(static_cast<float>(schedule.base_lr() * batch / schedule.base_batch()));
  return schedule;
}

RmspropShares RmspropSharesAt(const OptimizerParams& params, double epoch, double lr) {
  const double past = (epoch - params.center_epochs) / params.width_epochs;  // in widths
  RmspropShares shares;
  shares.sgd = past < 0 ? 0.5 * std::exp(2 * past) : std::min(1.0, 0.5 + past);
  // At a rate of 0 nothing changes, and the product of both would be NaN.
  if (shares.sgd < 1 && lr > 0) shares.rms = (1 - shares.sgd) * params.rms_lr / lr;
  return shares;
}

double LearningRateAt(const proto::Schedule& schedule, uint64_t samples, uint64_t samples_per_epoch,
                      uint32_t epochs) {
  const double base = schedule.base_lr();
  if (samples_per_epoch == 0) return base;
  const double epoch = static_cast<double>(samples) / static_cast<double>(samples_per_epoch);
  const double warmup = schedule.warmup_epochs();
  if (epoch < warmup) return base * (epoch / warmup);
  switch (schedule.shape_case()) {
    case proto::Schedule::SHAPE_NOT_SET:
    case proto::Schedule::kConstant:
      return base;
    case proto::Schedule::kStep: {
      double rate = base;
      for (float boundary : schedule.step().boundaries_epochs()) {
        if (epoch >= boundary) rate *= schedule.step().gamma();
      }
      return rate;
    }
    case proto::Schedule::kCosine: {
      const double span = static_cast<double>(epochs) - warmup;
      if (span <= 0) return base;
      const double progress = std::min(1.0, (epoch - warmup) / span);
      const double last = schedule.cosine().final_lr();
      return last + (base - last) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
    }
  }
  return base;
}

namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

// Returns the enum type of a field of that name, at any depth; null: there is none.
const EnumDescriptor* EnumOf(const std::string& field_name, const Descriptor* message,
                             std::set<const Descriptor*>* seen) {
  if (!seen->insert(message).second) return nullptr;
  for (int i = 0; i < message->field_count(); ++i) {
    const FieldDescriptor* field = message->field(i);
    if (field->name() == field_name && field->enum_type() != nullptr) return field->enum_type();
    if (field->message_type() == nullptr) continue;
    const EnumDescriptor* found = EnumOf(field_name, field->message_type(), seen);
    if (found != nullptr) return found;
  }
  return nullptr;
}

// Completes the message of protobuf's parser about an unknown enum value of proto::Job ("Unknown
// enumeration value of "X" for field "f".") with the values that exist; returns any other message
// as it is.
std::string WithEnumValues(const std::string& message) {
  constexpr char kBefore[] = "for field \"";
  const size_t at = message.find(kBefore);
  if (!absl::StartsWith(message, "Unknown enumeration value") || at == std::string::npos) {
    return message;
  }
  const size_t begin = at + sizeof kBefore - 1;
  const std::string name = message.substr(begin, message.find('"', begin) - begin);
  std::set<const Descriptor*> seen;
  const EnumDescriptor* type = EnumOf(name, proto::Job::descriptor(), &seen);
  if (type == nullptr) return message;
  std::vector<std::string> values;
  for (int i = 0; i < type->value_count(); ++i) values.push_back(type->value(i)->name());
  return absl::StrCat(message, " It is one of ", absl::StrJoin(values, ", "), ".");
}

using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;

// Prints `message` with every field except absent messages and absent optional values, so that
// defaults of zero are visible, too.
void Print(const Message& message, int indent, std::string* out) {
  const Reflection& reflection = *message.GetReflection();
  const std::string margin(indent, ' ');
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message.GetDescriptor()->field(i);
    if (!field->is_repeated() && field->has_presence() && !reflection.HasField(message, field)) {
      continue;
    }
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int k = 0; k < count; ++k) {
      const int index = field->is_repeated() ? k : -1;
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
        std::string value;
        TextFormat::PrintFieldValueToString(message, field, index, &value);
        absl::StrAppend(out, margin, field->name(), ": ", value, "\n");
        continue;
      }
      const Message& child = index < 0 ? reflection.GetMessage(message, field)
                                       : reflection.GetRepeatedMessage(message, field, index);
      std::string body;
      Print(child, indent + 2, &body);
      absl::StrAppend(out, margin, field->name(),
                      body.empty() ? " {}\n" : absl::StrCat(" {\n", body, margin, "}\n"));
    }
  }
}

template <typename Kind>
absl::StatusOr<Kind> Parse(const std::string& text, const std::string& source) {
  FirstTextError error(text, source, WithEnumValues);
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  Kind parsed;
  if (!parser.ParseFromString(text, &parsed)) return absl::InvalidArgumentError(error.line());
  return parsed;
}

}  // namespace

absl::StatusOr<proto::Job> ParseJob(const std::string& text, const std::string& source) {
  return Parse<proto::Job>(text, source);
}

absl::StatusOr<proto::Optimizer> ParseOptimizer(const std::string& text) {
  auto optimizer = Parse<proto::Optimizer>(text, "the program's optimizer");
  if (!optimizer.ok() || optimizer->kind_case() == proto::Optimizer::KIND_NOT_SET) {
    return optimizer;
  }
  proto::Job job;
  *job.mutable_optimizer() = *std::move(optimizer);
  FillDefaults(&job);
  return job.optimizer();
}

std::string JobToText(const proto::Job& job) {
  std::string text;
  Print(job, 0, &text);
  return text;
}

namespace {

class FirstMessage : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, int, const std::string& message) override {
    if (text_.empty()) text_ = message;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Returns the value as it would be written in a job file after the field's name.
std::string AsText(const FieldDescriptor& field, const std::string& value) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    return absl::StrCat(field.name(), " ", value);
  }
  const bool quoted = !value.empty() && (value[0] == '"' || value[0] == '\'');
  const bool is_string = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  return is_string && !quoted ? absl::StrCat(field.name(), ": \"", absl::CEscape(value), "\"")
                              : absl::StrCat(field.name(), ": ", value);
}

// Parses the value into an otherwise empty message of the parent's type, and moves it over.
absl::Status SetField(const std::string& path, const FieldDescriptor* field,
                      const std::string& value, Message* parent) {
  const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (is_message && (value.empty() || (value[0] != '{' && value[0] != '<'))) {
    const FieldDescriptor* member = field->message_type()->FindFieldByName(value);
    const bool nested = member != nullptr && member->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    return absl::InvalidArgumentError(
        absl::StrFormat("%s has fields of its own: write %s%s", field->name(), path,
                        nested ? absl::StrCat(".", value, "={}") : "={...}"));
  }
  std::unique_ptr<Message> parsed(parent->New());
  FirstMessage error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(AsText(*field, value), parsed.get())) {
    return absl::InvalidArgumentError(WithEnumValues(error.text()));
  }
  std::vector<const FieldDescriptor*> present;
  parsed->GetReflection()->ListFields(*parsed, &present);
  if (present.size() > 1 || (present.size() == 1 && present[0] != field)) {
    return absl::InvalidArgumentError("one setting sets one field");
  }
  if (!field->is_repeated()) parent->GetReflection()->ClearField(parent, field);
  parent->MergeFrom(*parsed);
  return absl::OkStatus();
}

absl::Status ApplySetting(const std::string& path, const std::string& value, proto::Job* job) {
  Message* message = job;
  const std::vector<std::string> names = absl::StrSplit(path, '.');
  for (size_t i = 0; i < names.size(); ++i) {
    const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(names[i]);
    if (field == nullptr) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s has no field named \"%s\"", message->GetDescriptor()->name(), names[i]));
    }
    if (i + 1 == names.size()) return SetField(path, field, value, message);
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s is a value and has no fields", field->name()));
    }
    if (field->is_repeated()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s is repeated: write %s={...} to add to it", field->name(),
                          absl::StrJoin(names.begin(), names.begin() + i + 1, ".")));
    }
    // Clears the other members of a oneof.
    message = message->GetReflection()->MutableMessage(message, field);
  }
  return absl::InvalidArgumentError("no field");
}

}  // namespace

absl::Status ApplySettings(const std::vector<std::string>& settings, proto::Job* job) {
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(
          absl::StrFormat("setting \"%s\": expected path=value", setting));
    }
    proto::Job changed = *job;
    // A later setting may change a field of the preset.
    ExpandPreset(changed.mutable_consistency());
    if (changed.rows().has_consistency()) {
      ExpandPreset(changed.mutable_rows()->mutable_consistency());
    }
    const absl::Status status =
        ApplySetting(setting.substr(0, equals), setting.substr(equals + 1), &changed);
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("setting \"%s\": %s", setting, status.message()));
    }
    job->Swap(&changed);
  }
  return absl::OkStatus();
}

}  // namespace strata
