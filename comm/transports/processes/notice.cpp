// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/processes/notice.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <string_view>
#include <type_traits>

#include "comm/transports/processes/wire.hpp"

namespace ringspan::comm::processes {
namespace {

constexpr std::size_t kLongestText = 800;       // of an error; a status has shorter ones
constexpr std::size_t kLongestOperation = 100;  // characters
constexpr std::size_t kMostRanks = 40;
static_assert(kLongestText + kLongestOperation + 64 <= Wire::kLargestNotice);
static_assert(kLongestOperation + 2 * 4 * kMostRanks + 16 * Status::kMostPosted + 64 <=
              Wire::kLargestNotice);

class Writer {
 public:
  template <typename Value>
  void value(Value value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    append(&value, sizeof value);
  }
  void text(std::string_view text, std::size_t longest) {
    text = text.substr(0, longest);
    value(static_cast<std::int32_t>(text.size()));
    append(text.data(), text.size());
  }
  template <typename Value>
  void list(const std::vector<Value>& values, std::size_t longest) {
    const std::size_t count = std::min(values.size(), longest);
    value(static_cast<std::int32_t>(count));
    for (std::size_t i = 0; i < count; ++i) value(values[i]);
  }
  std::vector<std::byte> take() const { return {bytes_.begin(), bytes_.begin() + size_}; }

 private:
  void append(const void* data, std::size_t size) {
    if (size_ + size > bytes_.size()) throw Error(ErrorKind::system, "a notice is too long");
    std::memcpy(bytes_.data() + size_, data, size);
    size_ += size;
  }

  std::array<std::byte, Wire::kLargestNotice> bytes_;
  std::size_t size_ = 0;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename Value>
  Value value() {
    Value value{};
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  std::string text() {
    const auto size = static_cast<std::size_t>(value<std::int32_t>());
    return {reinterpret_cast<const char*>(take(size)), size};
  }
  template <typename Value>
  std::vector<Value> list() {
    std::vector<Value> values(static_cast<std::size_t>(value<std::int32_t>()));
    for (Value& element : values) element = value<Value>();
    return values;
  }

 private:
  const std::byte* take(std::size_t bytes) {
    if (bytes > bytes_.size()) throw Error(ErrorKind::system, "a notice was cut short");
    const std::byte* data = bytes_.data();
    bytes_ = bytes_.subspan(bytes);
    return data;
  }

  std::span<const std::byte> bytes_;
};

void write(Writer& to, const Question& question) {
  to.value(question.heartbeat);
  to.value(question.channel);
  to.value(question.every_channel);
}

void write(Writer& to, const Status& status) {
  to.value(status.heartbeat);
  to.value(status.returned);
  to.value(status.waiting.has_value());
  if (const auto& waiting = status.waiting) {
    to.value(waiting->group ? waiting->group->id : -1);
    to.list(waiting->group ? waiting->group->members : std::vector<int>(), kMostRanks);
    to.value(waiting->sequence);
    to.text(waiting->operation, kLongestOperation);
    to.list(waiting->peers, kMostRanks);
  }
  to.list(status.posted, Status::kMostPosted);
  to.value(status.last);
}

void write(Writer& to, const Failed& failed) {
  const Error::Where& where = failed.error.where();
  to.value(failed.error.kind());
  to.value(where.rank);
  to.value(where.peer);
  to.value(where.sequence);
  to.text(where.operation, kLongestOperation);
  to.text(failed.error.what(), kLongestText);
  to.value(failed.thrown_by);
}

void write(Writer& to, const Count& count) { to.value(count); }
void write(Writer&, const Returned&) {}
void write(Writer&, const Finished&) {}

Status read_status(Reader& from) {
  Status status;
  status.heartbeat = from.value<std::int64_t>();
  status.returned = from.value<bool>();
  if (from.value<bool>()) {
    diagnosis::Waiting& waiting = status.waiting.emplace();
    const auto id = from.value<std::int64_t>();
    const auto members = from.list<int>();
    if (id >= 0) waiting.group = std::make_shared<diagnosis::Group>(id, members);
    waiting.sequence = from.value<std::int64_t>();
    waiting.operation = from.text();
    waiting.peers = from.list<int>();
  }
  status.posted = from.list<Posted>();
  status.last = from.value<bool>();
  return status;
}

Failed read_failed(Reader& from) {
  const auto kind = from.value<ErrorKind>();
  Error::Where where;
  where.rank = from.value<int>();
  where.peer = from.value<int>();
  where.sequence = from.value<std::int64_t>();
  where.operation = from.text();
  const std::string what = from.text();
  return {Error(kind, what, where), from.value<int>()};
}

}  // namespace

std::vector<std::byte> encode(const Content& content) {
  Writer to;
  to.value(static_cast<std::int8_t>(content.index()));
  std::visit([&](const auto& part) { write(to, part); }, content);
  return to.take();
}

Content decode(std::span<const std::byte> bytes) {
  Reader from(bytes);
  switch (from.value<std::int8_t>()) {
    case 0: {
      Question question;
      question.heartbeat = from.value<std::int64_t>();
      question.channel = from.value<std::int64_t>();
      question.every_channel = from.value<bool>();
      return question;
    }
    case 1: return read_status(from);
    case 2: return read_failed(from);
    case 3: return from.value<Count>();
    case 4: return Returned{};
    case 5: return Finished{};
    default: throw Error(ErrorKind::system, "a notice of a kind that is not known");
  }
}

Failed in_words(const diagnosis::Failure& failure) {
  const bool thrown = std::string_view(failure.cause.what()) != failure.thrown.what();
  return {failure.thrown, thrown ? failure.cause.where().rank : -1};
}

diagnosis::Failure from_words(const Failed& failed) {
  if (failed.thrown_by < 0) return {failed.error, failed.error};
  return diagnosis::failure_of_rank(failed.thrown_by, std::make_exception_ptr(failed.error));
}

}  // namespace ringspan::comm::processes
