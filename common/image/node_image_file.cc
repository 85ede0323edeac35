#include "common/image/node_image_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/image/image_counts.h"
#include "common/require.h"

namespace strata {
namespace {

using Json = nlohmann::json;

constexpr char kNode[] = "node";

// Takes the ranges of one file apart.
class RangeReader {
 public:
  RangeReader(ImageReader* file, const std::string& begin) : file_(file), begin_(begin) {}

  absl::StatusOr<NodeChunkImage> Read(const std::string& text) {
    NodeChunkImage range;
    const Json counts = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!ReadBegin(begin_, &range.begin)) {
      return Wrong("has no number for a name");
    }
    uint64_t elements = 0;
    if (!counts.is_object() || !ReadCount(counts, "elements", &elements) || elements == 0 ||
        elements > UINT32_MAX || range.begin + elements < range.begin) {
      return Wrong("does not say how many elements it has");
    }
    range.elements = static_cast<uint32_t>(elements);
    bytes_ = elements * sizeof(float);
    for (const auto& read : {&RangeReader::ReadPush, &RangeReader::ReadLocal,
                             &RangeReader::ReadNorms, &RangeReader::ReadArena}) {
      if (absl::Status status = (this->*read)(counts, &range); !status.ok()) return status;
    }
    return range;
  }

 private:
  absl::Status Wrong(const std::string& why) const {
    return file_->Wrong(absl::StrCat("image ", begin_), why);
  }

  // Takes a vector of the range's length.
  absl::Status Take(const std::string& name, Bytes* values) {
    *values = file_->TakeFloats(absl::StrCat(begin_, "/", name));
    if (values->size() == bytes_) return absl::OkStatus();
    return Wrong(absl::StrCat("has no ", name, " as long as it says"));
  }

  absl::Status TakeWeights(const std::string& room, const Json& counts, WeightImage* image) {
    uint64_t states = 0;
    if (!counts.is_object() || !ReadCounts(counts, image, &states) || states > kImageVectorsMax) {
      return Wrong(absl::StrCat("lacks a count of ", room));
    }
    if (absl::Status status = Take(absl::StrCat(room, "/weights"), &image->weights); !status.ok()) {
      return status;
    }
    image->state.resize(states);
    for (uint64_t i = 0; i < states; ++i) {
      absl::Status status = Take(absl::StrCat(room, "/state", i), &image->state[i]);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status ReadPush(const Json& counts, NodeChunkImage* range) {
    const auto found = counts.find("push");
    if (found == counts.end()) return absl::OkStatus();
    PushImage& push = range->push.emplace();
    uint64_t vectors = 0;
    if (!found->is_object() || !ReadCount(*found, "samples", &push.samples) ||
        !ReadCount(*found, "unsent", &vectors) || vectors > kImageVectorsMax) {
      return Wrong("lacks a count of push");
    }
    push.unsent.resize(vectors);
    for (uint64_t i = 0; i < vectors; ++i) {
      absl::Status status = Take(absl::StrCat("unsent", i), &push.unsent[i]);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status ReadLocal(const Json& counts, NodeChunkImage* range) {
    const auto found = counts.find("local");
    if (found == counts.end()) return absl::OkStatus();
    LocalStepsImage& local = range->local.emplace();
    uint64_t samples = 0;
    if (!found->is_object() || !ReadCount(*found, "clock", &local.clock) ||
        !ReadCount(*found, "last_samples", &samples) || samples > UINT32_MAX) {
      return Wrong("lacks a count of local");
    }
    local.last_samples = static_cast<uint32_t>(samples);
    if (absl::Status status = TakeWeights("local", *found, &local.own); !status.ok()) return status;
    return Take("local/start", &local.start);
  }

  absl::Status ReadNorms(const Json& counts, NodeChunkImage* range) {
    const auto found = counts.find("norms");
    if (found == counts.end()) return absl::OkStatus();
    return TakeWeights("norms", *found, &range->norms.emplace());
  }

  absl::Status ReadArena(const Json&, NodeChunkImage* range) {
    range->arena = file_->TakeFloats(absl::StrCat(begin_, "/arena"));
    if (range->arena.empty() || range->arena.size() == bytes_) return absl::OkStatus();
    return Wrong("has no arena as long as it says");
  }

  ImageReader* const file_;
  const std::string& begin_;
  size_t bytes_ = 0;
};

}  // namespace

ImageFile MakeNodeImageFile(const NodeImage& image) {
  ImageWriter file(kNodeImageFormat);
  file.AddText(kNode, Json({{"node", image.node}, {"clock", image.clock}}).dump());
  for (const NodeChunkImage& range : image.chunks) {
    Json counts = {{"elements", range.elements}};
    const auto add = [&](const std::string& name, const Bytes& values) {
      STRATA_REQUIRE(values.float_count() == range.elements);
      file.AddFloats(absl::StrCat(range.begin, "/", name), values);
    };
    const auto add_weights = [&](const std::string& room, const WeightImage& weights) {
      add(absl::StrCat(room, "/weights"), weights.weights);
      for (size_t i = 0; i < weights.state.size(); ++i) {
        add(absl::StrCat(room, "/state", i), weights.state[i]);
      }
    };
    if (range.push) {
      counts["push"] = {{"samples", range.push->samples}, {"unsent", range.push->unsent.size()}};
      for (size_t i = 0; i < range.push->unsent.size(); ++i) {
        add(absl::StrCat("unsent", i), range.push->unsent[i]);
      }
    }
    if (range.local) {
      counts["local"] = CountsOf(range.local->own);
      counts["local"]["clock"] = range.local->clock;
      counts["local"]["last_samples"] = range.local->last_samples;
      add_weights("local", range.local->own);
      add("local/start", range.local->start);
    }
    if (range.norms) {
      counts["norms"] = CountsOf(*range.norms);
      add_weights("norms", *range.norms);
    }
    if (!range.arena.empty()) add("arena", range.arena);
    file.AddText(absl::StrCat(range.begin), counts.dump());
  }
  return file.Finish();
}

absl::StatusOr<NodeImage> ParseNodeImageFile(const Bytes& content, const std::string& path) {
  ImageReader file(path);
  if (absl::Status status = file.Open(content, kNodeImageFormat); !status.ok()) return status;
  NodeImage image;
  bool has_node = false;
  for (const auto& [name, text] : file.texts()) {
    if (name == kNode) {
      const Json counts = Json::parse(text, nullptr, /*allow_exceptions=*/false);
      uint64_t node = 0;
      has_node = counts.is_object() && ReadCount(counts, "node", &node) && node <= UINT32_MAX &&
                 ReadCount(counts, "clock", &image.clock);
      image.node = static_cast<uint32_t>(node);
      continue;
    }
    absl::StatusOr<NodeChunkImage> range = RangeReader(&file, name).Read(text);
    if (!range.ok()) return range.status();
    image.chunks.push_back(*std::move(range));
  }
  if (!has_node) return file.Wrong("node", "is not said, or not its clock");
  if (absl::Status status = file.ExpectAllTaken(); !status.ok()) return status;
  std::sort(image.chunks.begin(), image.chunks.end(),
            [](const NodeChunkImage& a, const NodeChunkImage& b) { return a.begin < b.begin; });
  for (size_t i = 0; i + 1 < image.chunks.size(); ++i) {
    if (image.chunks[i + 1].begin - image.chunks[i].begin < image.chunks[i].elements) {
      return file.Wrong(absl::StrCat("image ", image.chunks[i].begin), "overlaps the next one");
    }
  }
  return image;
}

}  // namespace strata
