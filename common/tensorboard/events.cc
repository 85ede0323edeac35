#include "common/tensorboard/events.h"

#include <algorithm>
#include <boost/crc.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace strata::tensorboard {

namespace {

constexpr size_t kLengthBytes = 8;
constexpr size_t kCrcBytes = 4;
constexpr size_t kPieceBytes = size_t{1} << 20;

std::string LittleEndian(uint64_t value, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}

uint64_t FromLittleEndian(absl::string_view text) {
  uint64_t value = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    value |= uint64_t{static_cast<unsigned char>(text[i])} << (8 * i);
  }
  return value;
}

// Reads piece by piece: a wrong length takes no more memory than the file has bytes.
bool Read(std::istream* in, size_t bytes, std::string* text) {
  text->clear();
  while (text->size() < bytes) {
    const size_t before = text->size(), piece = std::min(kPieceBytes, bytes - before);
    text->resize(before + piece);
    if (!in->read(text->data() + before, static_cast<std::streamsize>(piece))) return false;
  }
  return true;
}

}  // namespace

uint32_t Crc32c(absl::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

uint32_t MaskedCrc32c(absl::string_view bytes) {
  constexpr uint32_t kMaskDelta = 0xa282ead8;
  const uint32_t crc = Crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + kMaskDelta;
}

std::string FrameRecord(absl::string_view payload) {
  const std::string length = LittleEndian(payload.size(), kLengthBytes);
  return absl::StrCat(length, LittleEndian(MaskedCrc32c(length), kCrcBytes), payload,
                      LittleEndian(MaskedCrc32c(payload), kCrcBytes));
}

bool RecordReader::ReadChecked(size_t bytes, std::string* text) {
  std::string crc;
  return Read(in_, bytes, text) && Read(in_, kCrcBytes, &crc) &&
         FromLittleEndian(crc) == MaskedCrc32c(*text);
}

bool RecordReader::Next(std::string* payload) {
  std::string length_text;
  if (!ReadChecked(kLengthBytes, &length_text)) return false;
  const uint64_t length = FromLittleEndian(length_text);
  if (length > kPayloadBytesMax || !ReadChecked(length, payload)) return false;
  whole_bytes_ += static_cast<int64_t>(kLengthBytes + kCrcBytes + length + kCrcBytes);
  return true;
}

namespace {

using Limits = std::numeric_limits<float>;

float Rounded(double value) {
  if (!std::isfinite(value)) return Limits::quiet_NaN();
  // Half a unit in the last place above the largest float, where rounding overflows.
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
  // Converted to double, as scripts read numbers in JSON.
  void AddCount(const std::string& tag, uint64_t count) { Add(tag, static_cast<double>(count)); }

 private:
  proto::Summary* summary_;
};

// Returns whether the record is about a window of steps: if ranks have trained, time has passed.
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
  // Markdown: indented text is shown verbatim.
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
  // Sorted by name.
  for (const auto& [name, value] :
       std::map<std::string, double>(record.values().begin(), record.values().end())) {
    scalars.Add(absl::StrCat("program/", name), value);
  }
  return event;
}

std::string FrameEvent(const proto::Event& event) { return FrameRecord(event.SerializeAsString()); }

}  // namespace strata::tensorboard
