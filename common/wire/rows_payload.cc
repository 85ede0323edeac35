#include "common/wire/rows_payload.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "common/buffer_pool.h"
#include "common/os/limits.h"
#include "common/require.h"
#include "common/wire/little_endian.h"

namespace strata::wire {
namespace {

constexpr size_t kCountsBytes = 8, kSectionBytes = 20;
constexpr uint32_t kRaw = 0, kDeltas = 1;
constexpr uint64_t kIdEnd = uint64_t{1} << 63;

constexpr size_t Padded(size_t bytes) { return (bytes + 3) / 4 * 4; }

size_t VarintBytes(uint64_t value) {
  return (static_cast<size_t>(std::bit_width(value | 1)) + 6) / 7;
}

std::byte* PutVarint(std::byte* to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) *to++ = static_cast<std::byte>(value | 0x80);
  *to++ = static_cast<std::byte>(value);
  return to;
}

// Returns the value at `*at`, which then points behind it; nullopt: it does not end before `end`,
// is longer than need be, or is no id.
std::optional<uint64_t> TakeVarint(const std::byte** at, const std::byte* end) {
  uint64_t value = 0;
  for (uint32_t shift = 0; *at < end && shift < 63; shift += 7) {
    const auto octet = static_cast<uint64_t>(*(*at)++);
    value |= (octet & 0x7f) << shift;
    if (octet >= 0x80) continue;
    return shift > 0 && octet == 0 ? std::nullopt : std::optional(value);
  }
  return std::nullopt;
}

// Returns a value for each id: the first id, then the differences less 1.
template <typename Each>
void ForDeltas(absl::Span<const uint64_t> ids, const Each& each) {
  uint64_t next = 0;
  for (const uint64_t id : ids) {
    each(id - next);
    next = id + 1;
  }
}

// How a section's ids are written.
struct IdCoding {
  uint32_t coding = kRaw;
  size_t bytes = 0;

  static IdCoding Of(absl::Span<const uint64_t> ids) {
    size_t deltas = 0;
    ForDeltas(ids, [&](uint64_t delta) { deltas += VarintBytes(delta); });
    const size_t raw = ids.size() * sizeof(uint64_t);
    return deltas < raw ? IdCoding{kDeltas, deltas} : IdCoding{kRaw, raw};
  }
};

absl::Status WrongRows(const std::string& reason) { return absl::InvalidArgumentError(reason); }

// Reads a payload piece by piece.
class Reader {
 public:
  explicit Reader(const Bytes& payload)
      : at_(payload.data()), end_(payload.data() + payload.size()) {}

  size_t left() const { return static_cast<size_t>(end_ - at_); }
  // REQUIRES: bytes <= left().
  const std::byte* Take(size_t bytes) {
    const std::byte* const taken = at_;
    at_ += bytes;
    return taken;
  }

 private:
  const std::byte* at_;
  const std::byte* const end_;
};

struct SectionHead {
  uint32_t table = 0, rows = 0, id_bytes = 0;
  float rate = 0;
  uint32_t coding = 0;

  static SectionHead Read(const std::byte* at) {
    return {.table = Get<uint32_t>(at),
            .rows = Get<uint32_t>(at + 4),
            .id_bytes = Get<uint32_t>(at + 8),
            .rate = std::bit_cast<float>(Get<uint32_t>(at + 12)),
            .coding = Get<uint32_t>(at + 16)};
  }

  // The bytes of the ids bound how many rows a section has, and so the memory for ids.
  absl::Status Check(bool is_pushed) const {
    const auto wrong = [this](const std::string& what) {
      return WrongRows(absl::StrFormat("table %d: %s", table, what));
    };
    if (coding != kRaw && coding != kDeltas) {
      return wrong(absl::StrFormat("id_coding is %d, which is unknown", coding));
    }
    const uint64_t least = uint64_t{rows} * (coding == kRaw ? sizeof(uint64_t) : 1);
    const bool fits = coding == kRaw ? id_bytes == least : id_bytes >= least;
    if (rows == 0 || !fits) return wrong(absl::StrFormat("%d rows in %d bytes", rows, id_bytes));
    if (!std::isfinite(rate) || std::signbit(rate) || (rate != 0 && !is_pushed)) {
      return wrong(absl::StrFormat("rate is %g", rate));
    }
    return absl::OkStatus();
  }

  // Appends the ids. REQUIRES: Check.
  absl::Status ReadIds(const std::byte* at, std::vector<uint64_t>* ids) const {
    const std::byte* const end = at + id_bytes;
    uint64_t next = 0;  // the least that the next id may be
    for (uint32_t row = 0; row < rows; ++row) {
      uint64_t id = 0;
      if (coding == kRaw) {
        id = Get<uint64_t>(at);
        at += sizeof(uint64_t);
        if (id < next) return WrongRows(absl::StrFormat("table %d: ids do not ascend", table));
      } else {
        const std::optional<uint64_t> delta = TakeVarint(&at, end);
        if (!delta) return WrongRows(absl::StrFormat("table %d: id %d is no varint", table, row));
        id = next + *delta;
      }
      if (id >= kIdEnd)
        return WrongRows(absl::StrFormat("table %d: an id is not below 2^63", table));
      ids->push_back(id);
      next = id + 1;
    }
    if (at == end) return absl::OkStatus();
    return WrongRows(absl::StrFormat("table %d: more bytes than ids", table));
  }
};

absl::Status ReadHeads(Reader* reader, uint32_t count, bool is_pushed, size_t tables,
                       std::vector<SectionHead>* heads) {
  if (count > reader->left() / kSectionBytes) return WrongRows("sections are missing");
  int64_t before = -1;
  for (uint32_t i = 0; i < count; ++i) {
    const SectionHead head = SectionHead::Read(reader->Take(kSectionBytes));
    if (head.table >= tables) {
      return WrongRows(absl::StrFormat("table %d, but the job has %d", head.table, tables));
    }
    if (head.table <= before) return WrongRows(absl::StrFormat("table %d comes twice", head.table));
    if (absl::Status valid = head.Check(is_pushed); !valid.ok()) return valid;
    before = head.table;
    heads->push_back(head);
  }
  return absl::OkStatus();
}

}  // namespace

Bytes EncodeRows(absl::Span<const RowsSection> pushed, absl::Span<const RowsSection> wanted,
                 absl::Span<const uint32_t> columns) {
  std::vector<IdCoding> codings;
  size_t size = kCountsBytes;
  for (const auto& sections : {pushed, wanted}) {
    for (const RowsSection& section : sections) {
      codings.push_back(IdCoding::Of(section.ids));
      size += kSectionBytes + Padded(codings.back().bytes);
    }
  }
  const auto value_bytes = [&](const RowsSection& section) {
    return section.ids.size() * columns[section.table] * sizeof(float);
  };
  for (const RowsSection& section : pushed) size += value_bytes(section);
  const std::shared_ptr<std::byte> buffer = AlignedMemory(size);
  STRATA_REQUIRE(buffer != nullptr);
  std::byte* to = buffer.get();
  Put(to, static_cast<uint32_t>(pushed.size()));
  Put(to + 4, static_cast<uint32_t>(wanted.size()));
  to += kCountsBytes;
  size_t next = 0;
  for (const auto& sections : {pushed, wanted}) {
    for (const RowsSection& section : sections) {
      const IdCoding& coding = codings[next++];
      Put(to, section.table);
      Put(to + 4, static_cast<uint32_t>(section.ids.size()));
      Put(to + 8, static_cast<uint32_t>(coding.bytes));
      Put(to + 12, std::bit_cast<uint32_t>(section.rate));
      Put(to + 16, coding.coding);
      to += kSectionBytes;
    }
  }
  next = 0;
  for (const auto& sections : {pushed, wanted}) {
    for (const RowsSection& section : sections) {
      const IdCoding& coding = codings[next++];
      std::byte* at = to;
      if (coding.coding == kDeltas) {
        ForDeltas(section.ids, [&](uint64_t delta) { at = PutVarint(at, delta); });
      } else {
        for (const uint64_t id : section.ids) {
          Put(at, id);
          at += sizeof(id);
        }
      }
      to += Padded(coding.bytes);
      std::fill(at, to, std::byte{0});
    }
  }
  for (const RowsSection& section : pushed) {
    std::memcpy(to, section.values, value_bytes(section));
    to += value_bytes(section);
  }
  return Bytes(buffer, buffer.get(), size);
}

absl::StatusOr<DecodedRows> DecodedRows::Decode(const Bytes& payload, uint64_t element_count,
                                                absl::Span<const uint32_t> columns) {
  Reader reader(payload);
  if (reader.left() < kCountsBytes) return WrongRows("the numbers of sections are missing");
  const std::byte* const counts = reader.Take(kCountsBytes);
  const auto pushed = Get<uint32_t>(counts), wanted = Get<uint32_t>(counts + 4);
  std::vector<SectionHead> heads;
  absl::Status status = ReadHeads(&reader, pushed, /*is_pushed=*/true, columns.size(), &heads);
  if (status.ok()) status = ReadHeads(&reader, wanted, false, columns.size(), &heads);
  if (!status.ok()) return status;
  uint64_t values = 0, wanted_values = 0;  // below 2^24 rows x 2^32 columns each
  for (size_t i = 0; i < heads.size(); ++i) {
    (i < pushed ? values : wanted_values) += uint64_t{heads[i].rows} * columns[heads[i].table];
  }
  // Before ids are read, which take more memory than payload.
  if (values != element_count) {
    return WrongRows(absl::StrFormat("%d values, not %d", element_count, values));
  }
  if (wanted_values > kFramePayloadBytesMax / sizeof(float)) {
    return WrongRows(
        absl::StrFormat("an answer of %d values does not fit into a frame: a job with "
                        "more rows.buckets has smaller ones",
                        wanted_values));
  }
  DecodedRows decoded;
  decoded.payload_ = payload;
  for (const SectionHead& head : heads) {
    if (Padded(head.id_bytes) > reader.left()) return WrongRows("ids are missing");
    const std::byte* const at = reader.Take(Padded(head.id_bytes));
    if (status = head.ReadIds(at, &decoded.ids_); !status.ok()) return status;
    for (size_t pad = head.id_bytes; pad < Padded(head.id_bytes); ++pad) {
      if (at[pad] != std::byte{0}) return WrongRows("padding is not 0");
    }
  }
  if (values * sizeof(float) != reader.left()) {
    return WrongRows(absl::StrFormat("%d bytes of %d values", reader.left(), values));
  }
  decoded.wanted_values_ = wanted_values;
  const std::byte* const bytes = reader.Take(values * sizeof(float));
  const auto* value = reinterpret_cast<const float*>(bytes);
  if (values > 0 && reinterpret_cast<uintptr_t>(bytes) % alignof(float) != 0) {
    decoded.unaligned_.resize(values);
    std::memcpy(decoded.unaligned_.data(), bytes, values * sizeof(float));
    value = decoded.unaligned_.data();
  }
  const uint64_t* id = decoded.ids_.data();
  for (size_t i = 0; i < heads.size(); ++i) {
    const SectionHead& head = heads[i];
    const bool is_pushed = i < pushed;
    (is_pushed ? decoded.pushed_ : decoded.wanted_)
        .push_back({.table = head.table,
                    .rate = head.rate,
                    .ids = absl::MakeConstSpan(id, head.rows),
                    .values = is_pushed ? value : nullptr});
    id += head.rows;
    if (is_pushed) value += size_t{head.rows} * columns[head.table];
  }
  return decoded;
}

}  // namespace strata::wire
