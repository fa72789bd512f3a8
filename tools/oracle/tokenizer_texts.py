"""The texts of the tokenizer goldens: scripts, pitfalls, code, special tokens, noise. Deterministic."""
import random

# A sentence or two in many scripts.
SCRIPTS = [
    "The quick brown fox jumps over the lazy dog.",
    "Größe, Übermaß und Straße; ÄÖÜ äöü ß ẞ.",
    "L'été dernier, nous sommes allés à la plage — c'était génial, n'est-ce pas ?",
    "El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia. ¿Qué? ¡Ñandú!",
    "Ação, coração, não, pão, mãe; às vezes à tarde.",
    "Pchnąć w tę łódź jeża lub ośm skrzyń fig.",
    "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "Árvíztűrő tükörfúrógép.",
    "Ţară, ţânţar, şi; Țară, țânțar, și.",
    "Đừng để ai ngăn cản bạn. Tiếng Việt có dấu thanh: ă â đ ê ô ơ ư ạ ế ộ.",
    "İstanbul'da ılık bir gün; ışık, ğ, ş, ç.",
    "Þórður Æska Øl Å ð œ ŋ ħ ŧ.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Їжак, ґанок, єдність, і решта. Ўсё добра. Љубав Њива Ђак Џем.",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. Ἀρχιμήδης ᾧ ἦν.",
    "Խոսում եմ հայերեն։ Բարեւ ձեզ։",
    "ქართული ენა ძალიან ლამაზია. ᲥᲐᲠᲗᲣᲚᲘ.",
    "דג סקרן שט בים מאוכזב. שָׁלוֹם עֲלֵיכֶם.",
    "نص حكيم له سر قاطع وذو شأن عظيم. السَّلَامُ عَلَيْكُمْ، ١٢٣٤٥؟",
    "در کوچه‌باغ‌های قدیمی می‌روم؛ ۱۲۳۴۵۶.",
    "ہم سب کو ایک دوسرے کی ضرورت ہے۔",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा। १२३४५",
    "আমার সোনার বাংলা, আমি তোমায় ভালোবাসি। ১২৩",
    "ਸਾਰੇ ਮਨੁੱਖ ਜਨਮ ਤੋਂ ਆਜ਼ਾਦ ਹਨ। ੧੨੩",
    "બધા મનુષ્યો જન્મથી મુક્ત છે. ૧૨૩",
    "எல்லா மனிதர்களும் சமமானவர்கள். ௧௨௩",
    "అందరూ స్వేచ్ఛగా పుట్టారు. ౧౨౩ ఌ",
    "ಎಲ್ಲಾ ಮಾನವರೂ ಸ್ವತಂತ್ರರು. ೧೨೩",
    "മനുഷ്യരെല്ലാവരും തുല്യരാണ്. ൧൨൩",
    "සියලු මනුෂ්‍යයෝ නිදහස්ව උපත ලබා ඇත.",
    "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า ๑๒๓ ฿๕๐๐",
    "ມະນຸດທຸກຄົນເກີດມາມີອິດສະຫຼະ ໑໒໓",
    "လူတိုင်းသည် တူညီလွတ်လပ်သော ဂုဏ်သိက္ခာ။ ၁၂၃",
    "មនុស្សទាំងអស់ កើតមកមានសេរីភាព។ ១២៣",
    "བོད་ཡིག་གི་སྐད་ཡིག། ༡༢༣",
    "ሰላም ለዓለም፤ የኢትዮጵያ ሕዝብ። ፩፪፫",
    "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ ꮳꮃꭹ",
    "ᐃᓄᒃᑎᑐᑦ ᐅᖃᐅᓯᖅ",
    "ᠮᠣᠩᠭᠣᠯ ᠪᠢᠴᠢᠭ᠌ ᠤ\u180eᠨ",
    "天地玄黄，宇宙洪荒。日月盈昃，辰宿列张。",
    "繁體中文：漢字、注音ㄅㄆㄇㄈ，與標點「」『』。",
    "いろはにほへと ちりぬるを。カタカナとｶﾀｶﾅ、漢字かな交じり文。",
    "다람쥐 헌 쳇바퀴에 타고파. ㄱㄴㄷ 한글 키스의 고유조건은",
    "𠀀𠀁𪚥 𡃁 㐀㐁 豈更車賈",
    "𐌰𐌱𐌲 𓀀𓂀𓃒 𒀀𒁀 𐎠𐎡 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟘𝟙𝟚",
    "Mixed: abcабвαβγअआ中文かな한글abc123१२३",
]

WHITESPACE = [
    "", " ", "  ", "   ", "    ", "\n", "\n\n", "\n\n\n", "\t", "\t\t", "\r\n", "\r\n\r\n", "\r", " \n", "\n ", " \n ", "  \n  ", "\t \t",
    "a b", "a  b", "a   b", "a    b", "a b ", " a b", "  a", "   a", "a  ", "a   ", "a\n", "a\n\n", "a \n", "a \n\n b", "a\n b", "a\n\n  b",
    "a\tb", "a\t\tb", "a \tb", "a\t b", "\ta", "a\t", "a\r\nb", "a\r\n\r\nb", "a\rb", "a \r\n b", "a\n\rb", "a  1", "a 1", "a   1  2", "1  a",
    "a\u00a0b", "a\u00a0\u00a0b", "\u00a0a", "a\u0085b", "\u0085\u0085", "a\u1680b", "a\u2003b", "a\u2003\u2003 b", "a\u2028b\u2029c", "a\u202fb",
    "a\u3000b", "\u3000\u3000あ", "a\u200bb", "a\ufeffb", "\ufeffabc", "a\u180eb", "a \u180e b", "\u180e\u180e ", " \u180e", "a\x0bb\x0cc", "\x1c\x1d\x1e\x1f",
    "x" + " " * 31 + "y", "x" + " " * 32 + "y", "x" + " " * 100, " " * 17, "\n" * 33, "\t" * 25, " \n" * 12, "\n " * 12, "a \n\t\r\n  \n b",
    "def f():\n    return 1\n\n\nclass A:\n\tx = 2\n", " leading", "trailing ", "double  space.  And again.  ", "\u2029\u2028", " \u00a0 \u2003 x",
]

CONTRACTIONS = [
    "I'm you're he's we've they'll I'd don't", "I'M YOU'RE HE'S WE'VE THEY'LL I'D DON'T", "I'm'm 's's 'S 'T 'RE 'Ve 'lL", "'s", "'", "''", "'''", "'ll'",
    "it'ſ his'ſ 'ſ ſ", "'ſ", "a'ſb", "'Ll'Re", "’s it’s don’t I’m", "‘quoted’ “double” ‚low‘ „low“", "rock'n'roll", "o'clock O'Neil", "'tis 'twas",
    " 's 't", "5's 10's", "_'s_", "中's", "é's", "'d've", "y'all'd've", "'\u017f\u0073", "ŉ 'n", "'K 'k", "we' re", "x'", "x' ", "'re'rex",
]

DIGITS = [
    "0", "1", "12", "123", "1234", "12345", "123456", "1234567", "1234567890123456789", "3.14159", "1,000,000.00", "1e-10", "0x1F4A9", "0b1010",
    "2024-02-29T23:59:60Z", "192.168.0.1", "+1 (555) 010-9999", "50%", "$19.99", "€5", "№ 7", "½ ¼ ¾ ⅓ ⅛", "x² y³ z⁴ ₀₁₂", "①②③ ⑩ ㊿", "Ⅷ ⅳ ↀ",
    "٠١٢٣٤٥٦٧٨٩", "۰۱۲۳", "०१२३", "๐๑๒๓", "０１２３４", "𝟘𝟙𝟚𝟛", "一二三四五", "1a2b3c", "a1b2c3", "abc123def456", "007", "1st 2nd 3rd", "1 2 3", "12 34", " 1",
    "1 ", "1\n2", "1'2", "1_000_000", "v1.2.3-rc.4", "٣a٣", "²", "1²", "²³¹", "𑑐𑑑 𞥐𞥑", "㉈㉉", "\U00011de0\U00011de5x", "\U00011f50\U00011f51", "꘠꘡", "౸౹",
]

EMOJI = [
    "😀😃😄", "😀 😃", "👍👍🏽👍🏿", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷", "🇩", "❤️ ❤", "☺️☺", "1️⃣2️⃣", "👩🏽‍🚀", "🤷🏼‍♂️", "🫠🫡🫶", "🪿🫏🩷", "🫩🫆🪾", "a😀b", "😀a", "\u200d", "\ufe0f", "\u20e3",
    "🧑‍🧑‍🧒‍🧒", "😶‍🌫️", "⌚⏰⏳", "♠♣♥♦", "→←↑↓⇒", "✅❌⚠️", "©®™", "🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉", "text :) ;-) <3 ¯\\_(ツ)_/¯",
]

MARKS = [
    "é é", "ñ ñ", "Å Å Å", "ạ̈ ạ̈ ạ̈", "o\u0302\u0301 ố", "a\u0300\u0301\u0302\u0303", "\u0301", "\u0301a", " \u0301", "1\u0301", "q\u0307\u0323 q\u0323\u0307", "ﬁ ﬂ ﬀ", "Ⅳ ℌ ℵ ™", "각 각", "가\u11a8",
    "ｶﾞ ガ ガ", "क़ क़", "שׁ שׁ", "ΐ ΐ", "ẛ̣", "ẛ̣", "①", "㎏ ㏂", "𝒜𝓑", "Z̷̢͔̲͉̯a̵̛̳l̸g̴o̵", "x\u0300\u0300\u0300\u0300\u0300\u0300\u0300\u0300\u0300\u0300", "e\u0301" * 20,
    "\u0344 \u0345", "\u212b\u2126\u212a", "\u0958\u0929", "\ufb1d\ufb4f", "\u0f43\u0f73\u0f81", "\U0001d15e\U0001d1bb", "a\u0898\u0301 a\u0301\u0898", "a\u07fd\u0300", "a\u1ac1\u0323 a\u0323\u1ac1",
    "\U00011935\U00011930 \U00011938", "\u0b47\u0b3e \u0cc6\u0cc2\u0cd5", "\u1100\u1161\u11a8\u1100", "\u0627\u0653 \u0622",
]

CONTROLS = [
    "\x00", "a\x00b", "\x00\x00\x00", "\x01\x02\x03\x04\x05\x06\x07\x08", "\x7f", "\x1b[31mred\x1b[0m", "\x80\x81\x82\x83\x84\x85\x86", "\x9f\xad", "a\xadb", "\u2060\u2061\u2062", "\u202a\u202b\u202c\u202d\u202e",
    "\ufff9\ufffa\ufffb", "\ufffd", "\ufffd\ufffd", "\uffff", "\ufdd0", "\U0001fffe", "\U0010ffff", "\ue000\uf8ff", "\U000f0000", "\U000e0001\U000e0041", "\u061c", "\u034f",
]

CODE = [
    "int main(void)\n{\n    printf(\"%d\\n\", 42);\n    return 0;\n}\n", "def fib(n):\n    if n < 2:\n        return n\n    return fib(n-1) + fib(n-2)\n",
    "const f = async (x) => { await x?.y ?? 'z'; };", "SELECT * FROM t WHERE a='b' AND c<>1;", "<div class=\"a b\">&nbsp;<br/></div>", "{\"key\": [1, 2.5e-3, null, true], \"k\\u00e9y\": \"v\\n\"}",
    "#!/bin/sh\nset -eu\nfor i in *; do echo \"$i\"; done", "fn main() { let v: Vec<&'static str> = vec![\"a\", \"b\"]; }", "a+=b; c--; d<<=2; e>>>=3; f!==g; h&&i||!j", "x = y ** 2 // 3 % 4 ^ 5 | 6 & ~7",
    "\\begin{equation}\n  e^{i\\pi}+1=0\n\\end{equation}", "http://www.example.com/a/b?c=d&e=%20f#g", "user.name+tag@example.co.uk", "C:\\Users\\x\\y.txt", "/usr/local/lib/x.so.1.2", "--flag=value -abc", "CamelCaseIdentifier snake_case_identifier kebab-case-identifier SCREAMING_SNAKE",
    "```python\nprint('hi')\n```", "| a | b |\n|---|---|\n| 1 | 2 |", "- [ ] todo\n- [x] done\n  1. sub", "#include <stdio.h>\n#define X(a) #a ## b", "if(a){b}else{c}", "((((()))))[[[]]]{{{}}}", "......", "!!!???", "-----", "=====", "*****", "_____", "/////", "\\\\\\\\", "<<<>>>", "'\"`", "a.b.c.d", "a,b,c,d", "a;b;c",
    "\t\tif (x)\r\n\t\t\treturn;\r\n", "0;i<10;i++", "?.!,:;", " .", " ,", "( a )", "$x $y ${z}", "@decorator", "#hashtag", "%s %d %05.2f", "^[a-z]+$", "~!@#$%^&*()_+{}|:\"<>?-=[]\\;',./",
]

# Special tokens of some vocabularies: whole, broken and with other text.
SPECIALS = [
    "<s>", "</s>", "<unk>", "<s>Hello</s>", "a<s>b", "<s> a", "<s><s>", " <s> ", "[INST] hi [/INST]", "<|begin_of_text|>", "<|end_of_text|><|eot_id|>", "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>",
    "<|reserved_special_token_0|>", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "<|endoftext|>", "a<|endoftext|>b", "<|endoftext|", "|endoftext|>", "<|endoftext|><|endoftext|>", "<|im_start|", "<|im_start|><|im_", "<|<|im_end|>|>",
    "<think>\nhm\n</think>", "<tool_call>{\"name\": \"f\"}</tool_call>", "<think", "</think></think>", "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>", "<｜begin▁of▁sentence｜>", "<｜User｜>Hi<｜Assistant｜>", "<｜end▁of▁sentence｜>", "<｜User|>", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function",
    "<｜fim▁hole｜>x<｜fim▁begin｜>", "<|EOT|>", "<｜place▁holder▁no▁0｜><｜place▁holder▁no▁797｜>", "<｜place▁holder▁no▁12", "<0x41>", "<0x0A><0xFF>", "▁", "▁▁", "▁a▁b", " ▁", "▁ ", "a▁", "Ġ", "Ċ", "Ġthe", "é<s>é", "e\u0301<|im_end|>\u0301", "e<think>\u0301", "<S>", "< s >",
    "<repo_name>x<file_sep>y", "<jupyter_start>", "<empty_output>", "<gh_stars>", "<filename>", "\n<|im_end|>\n", "  <|im_end|>  ", "1<|im_end|>2", "'<|im_end|>s", "<|object_ref_start|><|vision_pad|>", "<tool_response>\n</tool_response>", "x </s> y", "<|python_tag|>", "<|finetune_right_pad_id|>",
]

LONG = [
    "a" * 300, "ab" * 200, "A" * 257, "1" * 200, "!" * 300, "é" * 150, "中" * 150, "😀" * 60, "\u0301" * 100, "aA" * 100, "a " * 150, "a\n" * 100, "'s" * 100, "abcdefghijklmnopqrstuvwxyz" * 12, "antidisestablishmentarianism" * 5, "Donaudampfschifffahrtsgesellschaftskapitän" * 3,
    "hello" * 80, "的" * 99, "=" * 129, "- " * 80, "0123456789" * 20, "<s>" * 40, "▁" * 60, "ა" * 64, "\t" * 120, "lorem ipsum dolor sit amet, consectetur adipiscing elit " * 6, "WWWWWWWW" * 20, "\u200b" * 50, "ﷺ" * 20,
]

PROSE = [
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness.",
    "Call me Ishmael. Some years ago—never mind how long precisely—having little or no money in my purse, I thought I would sail about a little.",
    "Is 7 > 5? Yes; 7-5=2. (See p. 12, §3.)", "Dr. Smith's dog, \"Rex\", barked: 'Woof!'", "E = mc², H₂O, CO₂, 25 °C, ±3 µm, 10⁻³", "TITLE IN CAPITALS and Title Case and lower", "iPhone XXXL McDonald's eBay YouTube LaTeX", "ok... so — what?!", "naïve façade Motörhead Beyoncé", "Hello World", " Hello World", "Hello", " Hello", "hello world!", "Hello, world! 你好，世界！", "The capital of France is", "Write a haiku about the sea.", "a", "I", "A b C d", "Ab aB AB", "don't", "\"Yes,\" she said.", "one\ntwo\nthree", "Line one.\r\nLine two.\r\n",
    "Ⅎ ʇxǝʇ uʍop ǝpᴉsdn", "ＦＵＬＬ ｗｉｄｔｈ", "ᵗⁱⁿʸ ₜₑₓₜ", "s p a c e d", "x=1,y=2", "(a)(b)(c)", "Résumé—CV", "50–60 km", "“Nested ‘quotes’ here”", "「日本語」と『英語』", "«Guillemets»", "¿Por qué? ¡Así!", "i.e., e.g., etc.", "AT&T R&D", "#1 @home", "100€", "C++ C# F#", "日本語English混在テキスト123", "русскийEnglish", "한국어ABC", "ไทยabc",
]


def noise(rng, new):
    """Return a random string of pitfalls, characters of every plane, and characters newer than some library's Unicode."""
    traps = "".join(WHITESPACE[10:70] + CONTRACTIONS + DIGITS + MARKS + EMOJI)
    words = [w for t in SCRIPTS + PROSE + SPECIALS for w in t.split(" ") if w]

    def scalar(low, high):
        while True:
            c = rng.randint(low, high)
            if not 0xD800 <= c < 0xE000:
                return chr(c)

    makers = [
        lambda: rng.choice(traps), lambda: rng.choice(words), lambda: chr(rng.randint(32, 126)), lambda: rng.choice(["  ", "\n", " ", "\t", "'", "1"]),
        lambda: scalar(0x80, 0x7FF), lambda: scalar(0x800, 0xFFFF), lambda: scalar(0x10000, 0x10FFFF), lambda: chr(rng.randint(0x300, 0x36F)),
        lambda: chr(rng.choice(new)), lambda: rng.choice(SPECIALS),
    ]
    weights = [25, 18, 15, 10, 6, 8, 3, 5, 5, 5]
    return "".join(rng.choices(makers, weights)[0]() for _ in range(rng.randint(5, 45)))


def texts(new):
    """Return all texts. `new`: code points that the reference supports and older Unicode versions do not."""
    rng = random.Random(20)
    out = SCRIPTS + WHITESPACE + CONTRACTIONS + DIGITS + EMOJI + MARKS + CONTROLS + CODE + SPECIALS + LONG + PROSE
    out += ["".join(chr(c) for c in new[i:i + 24]) for i in range(0, len(new), 24)]
    out += [f"a{chr(c)} b{chr(c)}{chr(c)} 1{chr(c)}" for c in new[::9]]
    out += ["<eos>", "a <eos>", "<bos>", "<bos><eos> <bos>", "the<bos>HELLO", "[eos]", "<mask> mask"]
    out += [noise(rng, new) for _ in range(150)]
    seen = dict.fromkeys(out)
    assert all(not 0xD800 <= ord(c) < 0xE000 for t in seen for c in t)
    return list(seen)
