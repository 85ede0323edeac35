#include "common/tensorboard/events.h"

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/tensorboard/record_framing.h"

namespace strata::tensorboard {
namespace {

using Limits = std::numeric_limits<float>;

float Rounded(double value) {
  if (!std::isfinite(value)) return Limits::quiet_NaN();
  // Half a unit in the last place above the largest float is where rounding leaves the floats.
  constexpr double kBeyond = 0x1.ffffffp127;
  if (std::fabs(value) >= kBeyond) return value > 0 ? Limits::infinity() : -Limits::infinity();
  return static_cast<float>(value);
}

class Scalars {
 public:
  explicit Scalars(proto::Summary* summary) : summary_(summary) {}

  void Add(const std::string& tag, double value) {
    proto::Summary::Value* one = summary_->add_value();
    one->set_tag(tag);
    one->set_simple_value(Rounded(value));
  }
  // As scripts read them of JSON: by way of a double.
  void AddCount(const std::string& tag, uint64_t count) { Add(tag, static_cast<double>(count)); }

 private:
  proto::Summary* summary_;
};

// Whether it is about a window of steps: where ranks have trained, time has passed.
bool HasWindow(const strata::proto::MetricsRecord& record) {
  return record.samples() > 0 && (!record.final() || record.samples_per_s() != 0);
}

void AddStaleness(const strata::proto::MetricsRecord& record, Scalars* scalars) {
  double sum = 0, pushes = 0;
  for (int bin = 0; bin < record.staleness_size(); ++bin) {
    sum += static_cast<double>(bin) * static_cast<double>(record.staleness(bin));
    pushes += static_cast<double>(record.staleness(bin));
  }
  if (pushes > 0) scalars->Add("train/staleness_mean", sum / pushes);
}

void AddWindow(const strata::proto::MetricsRecord& record, Scalars* scalars) {
  scalars->Add("train/loss", record.loss());
  scalars->Add("train/lr", record.lr());
  scalars->Add("train/epoch", record.epoch());
  scalars->AddCount("train/samples", record.samples());
  scalars->Add("train/samples_per_s", record.samples_per_s());
  scalars->Add("train/waiting_share", record.waiting_share());
  if (record.has_hidden_share()) scalars->Add("train/hidden_share", record.hidden_share());
  AddStaleness(record, scalars);
  scalars->AddCount("network/bytes_pushed", record.bytes_pushed());
  scalars->AddCount("network/bytes_answered", record.bytes_answered());
  scalars->AddCount("network/pushes", record.pushes());
  scalars->AddCount("network/pushes_during_backward", record.pushes_during_backward());
}

}  // namespace

proto::Event FileVersionEvent(double wall_time_s) {
  proto::Event event;
  event.set_wall_time(wall_time_s);
  event.set_file_version("brain.Event:2");  // TensorFlow's since 2016: START voids
  return event;
}

proto::Event GoOnEvent(uint64_t step, double wall_time_s) {
  proto::Event event;
  event.set_wall_time(wall_time_s);
  event.set_step(static_cast<int64_t>(step + 1));
  event.mutable_session_log()->set_status(proto::SessionLog::START);
  return event;
}

proto::Event JobTextEvent(absl::string_view text, double wall_time_s) {
  // Markdown: what is indented is shown as it stands.
  std::string shown;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!line.empty()) absl::StrAppend(&shown, "    ", line, "\n");
  }
  proto::Event event;
  event.set_wall_time(wall_time_s);
  proto::Summary::Value* value = event.mutable_summary()->add_value();
  value->set_tag("job");
  value->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  value->mutable_tensor()->set_dtype(proto::DT_STRING);
  value->mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(1);
  value->mutable_tensor()->add_string_val(shown);
  return event;
}

proto::Event MetricsEvent(const strata::proto::MetricsRecord& record, double wall_time_s) {
  proto::Event event;
  event.set_wall_time(wall_time_s);
  event.set_step(static_cast<int64_t>(record.step()));
  Scalars scalars(event.mutable_summary());
  if (HasWindow(record)) AddWindow(record, &scalars);
  if (record.has_test_accuracy()) scalars.Add("test/accuracy", record.test_accuracy());
  if (record.has_test_loss()) scalars.Add("test/loss", record.test_loss());
  // By name.
  for (const auto& [name, value] :
       std::map<std::string, double>(record.values().begin(), record.values().end())) {
    scalars.Add(absl::StrCat("program/", name), value);
  }
  return event;
}

std::string FrameEvent(const proto::Event& event) { return FrameRecord(event.SerializeAsString()); }

}  // namespace strata::tensorboard
