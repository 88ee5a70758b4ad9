#include "launcher/explain/sentences.hpp"

#include <cstdint>
#include <stdexcept>

#include "base/toml.hpp"
#include "launcher/explain/embedded.hpp"

namespace toporun::launcher::explain {

std::string filled_in(std::string_view text, const Values& values) {
    std::string out;
    while (!text.empty()) {
        const std::size_t open = text.find('{');
        out += text.substr(0, open);
        if (open == std::string_view::npos) break;
        text.remove_prefix(open);
        const std::size_t close = text.find('}');
        const auto value =
            close == text.npos ? values.end() : values.find(text.substr(1, close - 1));
        if (value == values.end()) {
            out += '{';
            text.remove_prefix(1);
            continue;
        }
        out += value->second;
        text.remove_prefix(close + 1);
    }
    return out;
}

const Sentences& Sentences::builtin() {
    static const Sentences sentences;
    return sentences;
}

Sentences::Sentences() {
    for (const EmbeddedFile& embedded : embedded_files()) {
        TomlTable file = TomlTable::parse(embedded.text, embedded.name);
        for (TomlTable& group : file.tables("groups")) {
            const std::string source = group.filled_string("source");
            for (TomlTable& row : group.tables("events")) {
                Sentence sentence{row.filled_string("form"), row.filled_string("says"),
                                  row.string("todo").value_or(""), source};
                std::string form = sentence.form;
                if (!events_.emplace(std::move(form), std::move(sentence)).second)
                    row.fail("form", "it is there twice");
            }
            for (TomlTable& row : group.tables("texts")) {
                const std::string text = row.filled_string("text");
                Sentence sentence{"text", row.filled_string("says"),
                                  row.string("todo").value_or(""), source};
                try {
                    texts_.emplace_back(failures::Pattern(text), std::move(sentence));
                } catch (const std::invalid_argument& fault) {
                    row.fail("text", fault.what());
                }
                filter_.add(texts_.back().first.key(),
                            static_cast<std::uint16_t>(texts_.size() - 1));
            }
        }
        file.finish();
    }
}

const Sentence* Sentences::find(std::string_view form) const {
    const auto found = events_.find(form);
    return found == events_.end() ? nullptr : &found->second;
}

std::optional<Sentences::Match> Sentences::match(std::string_view message) const {
    std::vector<std::uint16_t> candidates;
    filter_.find(message, candidates);
    for (const std::uint16_t candidate : candidates) {
        const auto& [pattern, sentence] = texts_[candidate];
        if (const auto captures = pattern.match(message))
            return Match{&sentence, captures->filled_in(sentence.says)};
    }
    return std::nullopt;
}

}  // namespace toporun::launcher::explain
