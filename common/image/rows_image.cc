#include "common/image/rows_image.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/image/safetensors.h"
#include "common/os/limits.h"
#include "common/require.h"

namespace strata {
namespace {

using nlohmann::json;

constexpr char kRows[] = "rows", kIds[] = "ids", kClocks[] = "clocks", kPushes[] = "pushes";
constexpr char kRowWeights[] = "weights", kRowState[] = "state";

absl::Status WrongRows(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
}

json FactsOf(const RowsImage& image) {
  json facts = {{"clock", image.clock},
                {"buckets", image.buckets},
                {"last", image.is_last},
                {"parts", json::array()},
                {"tables", json::array()}};
  for (const BucketImage& one : image.parts) {
    facts["parts"].push_back(
        {{"bucket", one.bucket}, {"version", one.version}, {"applied", one.applied}});
  }
  for (const TableRows& rows : image.tables) {
    facts["tables"].push_back({{"table", rows.table},
                               {"name", rows.name},
                               {"columns", rows.columns},
                               {"state", rows.state_columns}});
  }
  return facts;
}

bool ReadNumber(const json& object, const char* name, uint64_t most, uint64_t* number) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_unsigned()) return false;
  *number = found->get<uint64_t>();
  return *number <= most;
}

template <typename To>
bool ReadNumber(const json& object, const char* name, uint64_t most, To* to) {
  uint64_t number = 0;
  if (!ReadNumber(object, name, most, &number)) return false;
  *to = static_cast<To>(number);
  return true;
}

bool ReadPart(const json& facts, uint32_t buckets, BucketImage* part) {
  if (!facts.is_object() || !ReadNumber(facts, "bucket", buckets - 1, &part->bucket) ||
      !ReadNumber(facts, "version", UINT64_MAX, &part->version)) {
    return false;
  }
  const auto applied = facts.find("applied");
  if (applied == facts.end() || !applied->is_array()) return false;
  for (const json& pushes : *applied) {
    if (!pushes.is_number_unsigned()) return false;
    part->applied.push_back(pushes.get<uint64_t>());
  }
  return true;
}

bool ReadTable(const json& facts, TableRows* rows) {
  // As tables have, and the most that an optimizer keeps for each weight.
  constexpr uint64_t kColumnsMost = 4096, kStateMost = 2 * kColumnsMost;
  if (!facts.is_object() || !ReadNumber(facts, "table", kTablesMax - 1, &rows->table) ||
      !ReadNumber(facts, "columns", kColumnsMost, &rows->columns) || rows->columns == 0 ||
      !ReadNumber(facts, "state", kStateMost, &rows->state_columns)) {
    return false;
  }
  const auto name = facts.find("name");
  if (name == facts.end() || !name->is_string()) return false;
  rows->name = name->get<std::string>();
  return true;
}

// Returns what is wrong; null: nothing.
const char* ReadFacts(const std::string& text, RowsImage* image) {
  if (!IsWithinJsonBounds(text)) return "rows: its JSON is too large";
  const json facts = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!facts.is_object() || !ReadNumber(facts, "clock", UINT64_MAX, &image->clock)) {
    return "rows: has no clock";
  }
  if (!ReadNumber(facts, "buckets", kBucketsMax, &image->buckets) || image->buckets == 0) {
    return "rows: buckets is not in 1 to 4096";
  }
  const auto last = facts.find("last");
  if (last == facts.end() || !last->is_boolean())
    return "rows: does not say whether it is the last";
  image->is_last = last->get<bool>();
  const auto parts = facts.find("parts"), tables = facts.find("tables");
  if (parts == facts.end() || !parts->is_array()) return "rows: has no parts";
  for (const json& part : *parts) {
    const bool is_right = ReadPart(part, image->buckets, &image->parts.emplace_back());
    if (!is_right) return "rows: a part lacks bucket, version or applied";
  }
  if (tables == facts.end() || !tables->is_array()) return "rows: has no tables";
  for (const json& table : *tables) {
    if (!ReadTable(table, &image->tables.emplace_back())) {
      return "rows: a table lacks table, name, columns or state";
    }
    const size_t count = image->tables.size();
    if (count > 1 && image->tables[count - 1].table <= image->tables[count - 2].table) {
      return "rows: its tables do not ascend";
    }
  }
  return nullptr;
}

// Takes the tensors of a file by their names.
class RowTensors {
 public:
  explicit RowTensors(const ModelView& file) {
    for (const TensorView& tensor : file.tensors) tensors_[tensor.name] = &tensor;
  }

  // Copies a tensor of `rows` x `columns` values, or, if `columns` is 0, of `rows`. Returns false
  // if it is not there, or is not so.
  template <typename Value>
  bool Take(uint32_t table, const char* what, const char* dtype, size_t rows, size_t columns,
            std::vector<Value>* values) {
    const auto found = tensors_.find(absl::StrCat(table, "/", what));
    if (found == tensors_.end()) return false;
    const TensorView& tensor = *found->second;
    tensors_.erase(found);
    std::vector<uint64_t> shape = {rows};
    if (columns > 0) shape.push_back(columns);
    if (tensor.dtype != dtype || tensor.shape != shape) return false;
    values->resize(tensor.values.size() / sizeof(Value));
    if (!values->empty()) {
      std::memcpy(values->data(), tensor.values.data(), tensor.values.size());
    }
    return true;
  }
  // Returns how many rows a table has; nullopt: it has no ids.
  std::optional<size_t> RowsOf(uint32_t table) const {
    const auto ids = tensors_.find(absl::StrCat(table, "/", kIds));
    if (ids == tensors_.end() || ids->second->shape.size() != 1) return std::nullopt;
    return ids->second->shape[0];
  }
  // Returns the name of a tensor that nobody has taken; "": there is none.
  std::string Left() const { return tensors_.empty() ? "" : tensors_.begin()->first; }

 private:
  std::map<std::string, const TensorView*> tensors_;
};

bool AreFinite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

// Returns what is wrong; null: nothing.
const char* TakeTable(RowTensors* tensors, TableRows* rows) {
  const std::optional<size_t> count = tensors->RowsOf(rows->table);
  if (!count) return "has no ids";
  const uint32_t table = rows->table;
  if (!tensors->Take(table, kIds, "I64", *count, 0, &rows->ids) ||
      !tensors->Take(table, kClocks, "I32", *count, 0, &rows->clocks) ||
      !tensors->Take(table, kPushes, "I32", *count, 0, &rows->pushes) ||
      !tensors->Take(table, kRowWeights, "F32", *count, rows->columns, &rows->weights) ||
      (rows->state_columns > 0 &&
       !tensors->Take(table, kRowState, "F32", *count, rows->state_columns, &rows->state))) {
    return "has a tensor of another shape or type, or lacks one";
  }
  if (std::any_of(rows->ids.begin(), rows->ids.end(), [](uint64_t id) { return id >> 63 != 0; })) {
    return "has an id below 0";
  }
  const auto is_nan = [](float x) { return std::isnan(x); };
  const bool has_nan = std::any_of(rows->state.begin(), rows->state.end(), is_nan);
  return AreFinite(rows->weights) && !has_nan ? nullptr : "holds NaN or infinity";
}

// Adds a tensor whose values go into the file as they are, and keeps them alive.
template <typename Value>
void AddTensor(const std::string& name, const char* dtype, std::vector<uint64_t> shape,
               std::vector<Value> values, std::vector<TensorToSave>* tensors, ImageFile* file) {
  const auto owner = std::make_shared<const std::vector<Value>>(std::move(values));
  const size_t bytes = owner->size() * sizeof(Value);
  file->values.emplace_back(owner, reinterpret_cast<const std::byte*>(owner->data()), bytes);
  TensorToSave tensor = {.name = name, .shape = std::move(shape), .values = {}};
  tensor.dtype = dtype;
  tensor.other = {reinterpret_cast<const char*>(owner->data()), bytes};
  tensors->push_back(std::move(tensor));
}

}  // namespace

ImageFile MakeRowsImageFile(RowsImage image) {
  ImageFile file;
  std::vector<TensorToSave> tensors;
  const std::string facts = FactsOf(image).dump(-1, ' ', false, json::error_handler_t::replace);
  for (TableRows& rows : image.tables) {
    const uint64_t count = rows.ids.size();
    STRATA_REQUIRE(rows.weights.size() == count * rows.columns);
    const auto name = [&](const char* what) { return absl::StrCat(rows.table, "/", what); };
    AddTensor(name(kIds), "I64", {count}, std::move(rows.ids), &tensors, &file);
    AddTensor(name(kRowWeights), "F32", {count, rows.columns}, std::move(rows.weights), &tensors,
              &file);
    if (rows.state_columns > 0) {
      AddTensor(name(kRowState), "F32", {count, rows.state_columns}, std::move(rows.state),
                &tensors, &file);
    }
    AddTensor(name(kClocks), "I32", {count}, std::move(rows.clocks), &tensors, &file);
    AddTensor(name(kPushes), "I32", {count}, std::move(rows.pushes), &tensors, &file);
  }
  file.head = SafetensorsHead({{"format", kRowsImageFormat}, {kRows, facts}}, tensors);
  return file;
}

absl::StatusOr<RowsImage> ParseRowsImageFile(const Bytes& content, const std::string& path) {
  absl::StatusOr<ModelView> file = ViewSafetensorsOfAnyType(
      {reinterpret_cast<const char*>(content.data()), content.size()}, path);
  if (!file.ok()) return file.status();
  const auto format = file->metadata.find("format"), facts = file->metadata.find(kRows);
  if (format == file->metadata.end() || format->second != kRowsImageFormat) {
    return WrongRows(path, absl::StrCat("format is not ", kRowsImageFormat));
  }
  RowsImage image;
  if (facts == file->metadata.end()) return WrongRows(path, "rows: is missing");
  if (const char* wrong = ReadFacts(facts->second, &image)) return WrongRows(path, wrong);
  RowTensors tensors(*file);
  for (TableRows& rows : image.tables) {
    if (const char* wrong = TakeTable(&tensors, &rows)) {
      return WrongRows(
          path, absl::StrFormat("table \"%s\" (%d) %s", ShownName(rows.name), rows.table, wrong));
    }
  }
  if (const std::string left = tensors.Left(); !left.empty()) {
    return WrongRows(path, absl::StrCat("tensor ", ShownName(left), " belongs to no table"));
  }
  return image;
}

}  // namespace strata
