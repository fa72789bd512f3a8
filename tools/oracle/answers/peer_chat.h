/* peer_chat.h - what the cases of llama.cpp's tests/test-chat.cpp need to be printed as JSON instead of run:
 * its types by name, without its library. llama_cases.py puts the file's own cases behind this header. */
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#define LOG_DBG(...)
#define LOG_INF(...)
enum common_reasoning_format { COMMON_REASONING_FORMAT_NONE, COMMON_REASONING_FORMAT_AUTO,
                               COMMON_REASONING_FORMAT_DEEPSEEK_LEGACY, COMMON_REASONING_FORMAT_DEEPSEEK };
enum common_chat_tool_choice { COMMON_CHAT_TOOL_CHOICE_AUTO,
                               COMMON_CHAT_TOOL_CHOICE_REQUIRED, COMMON_CHAT_TOOL_CHOICE_NONE };
enum common_chat_continuation { COMMON_CHAT_CONTINUATION_NONE, COMMON_CHAT_CONTINUATION_AUTO,
                                COMMON_CHAT_CONTINUATION_REASONING,
                                COMMON_CHAT_CONTINUATION_CONTENT };
struct common_chat_tool { std::string name, description, parameters; };
struct common_chat_tool_call { std::string name, arguments, id; };
struct common_chat_msg_content_part { std::string type, text; };
struct common_chat_msg {
    std::string role, content;
    std::vector<common_chat_msg_content_part> content_parts;
    std::vector<common_chat_tool_call> tool_calls;
    std::string reasoning_content, tool_name, tool_call_id;
};
struct common_chat_params_of_test {
    common_reasoning_format reasoning_format = COMMON_REASONING_FORMAT_NONE;
    std::vector<common_chat_tool> tools;
    std::vector<common_chat_msg> messages;
    bool enable_thinking = true, parallel_tool_calls = false, add_generation_prompt = true;
    common_chat_continuation continue_final_message = COMMON_CHAT_CONTINUATION_NONE;
    std::string json_schema;
    common_chat_tool_choice tool_choice = COMMON_CHAT_TOOL_CHOICE_AUTO;
    std::map<std::string, std::string> chat_template_kwargs;
};

static std::string quoted(const std::string & s)
{
    std::string out = "\"";
    char code[8];
    for (unsigned char c : s) {
        if (c == '"' || c == '\\')
            out += '\\', out += (char)c;
        else if (c < 0x20)
            snprintf(code, sizeof code, "\\u%04x", c), out += code;
        else
            out += (char)c;
    }
    return out + "\"";
}

class peg_test_builder;
class peg_tester {
  public:
    std::string path;
    explicit peg_tester(const std::string & p, bool = false) : path(p) {}
    peg_test_builder test(const std::string & input);
};

class peg_test_builder {
    std::string path, input;
    common_chat_params_of_test p;
    common_chat_msg want;
    bool partial = false;

  public:
    peg_test_builder(const std::string & where, const std::string & text) : path(where), input(text) {}
#define SETTER(name, type, what) peg_test_builder & name(type v) { what = v; return *this; }
    SETTER(reasoning_format, common_reasoning_format, p.reasoning_format)
    SETTER(tools, std::vector<common_chat_tool>, p.tools)
    SETTER(enable_thinking, bool, p.enable_thinking)
    SETTER(parallel_tool_calls, bool, p.parallel_tool_calls)
    SETTER(add_generation_prompt, bool, p.add_generation_prompt)
    SETTER(continue_final_message, common_chat_continuation, p.continue_final_message)
    SETTER(json_schema, const std::string &, p.json_schema)
    SETTER(is_partial, bool, partial)
    SETTER(expect, const common_chat_msg &, want)
    SETTER(expect_content, const std::string &, want.content)
    SETTER(expect_reasoning, const std::string &, want.reasoning_content)
    SETTER(expect_tool_calls, std::vector<common_chat_tool_call>, want.tool_calls)
    SETTER(tool_choice, common_chat_tool_choice, p.tool_choice)
    SETTER(messages, std::vector<common_chat_msg>, p.messages)
    peg_test_builder & expect_reconstruction(bool = true) { return *this; }
    void run()
    {
        std::cout << "{\"path\": " << quoted(path) << ", \"text\": " << quoted(input)
                  << ", \"format\": " << p.reasoning_format << ", \"thinking\": " << p.enable_thinking
                  << ", \"partial\": " << partial << ", \"continues\": " << p.continue_final_message
                  << ", \"begins\": " << p.add_generation_prompt << ", \"schema\": " << quoted(p.json_schema)
                  << ", \"tools\": [";
        for (size_t i = 0; i < p.tools.size(); i++)
            std::cout << (i ? ", " : "") << "{\"name\": " << quoted(p.tools[i].name) << ", \"parameters\": "
                      << (p.tools[i].parameters.empty() ? "{}" : p.tools[i].parameters.c_str()) << "}";
        std::cout << "], \"content\": " << quoted(want.content)
                  << ", \"reasoning\": " << quoted(want.reasoning_content) << ", \"calls\": [";
        for (size_t i = 0; i < want.tool_calls.size(); i++)
            std::cout << (i ? ", " : "") << "{\"name\": " << quoted(want.tool_calls[i].name)
                      << ", \"arguments\": " << quoted(want.tool_calls[i].arguments)
                      << ", \"id\": " << quoted(want.tool_calls[i].id) << "}";
        std::cout << "]}" << '\0';
    }
};
peg_test_builder peg_tester::test(const std::string & input) { return peg_test_builder(path, input); }
