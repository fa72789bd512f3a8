/* family.h - one descriptor for each way in which models write calls. */
#ifndef LM_TEXT_ANSWER_FAMILY_H
#define LM_TEXT_ANSWER_FAMILY_H

#include "lamina/answer.h"

typedef enum lm_answer_form {
    LM_FORM_OBJECT,                  /* {"name": …, "arguments": {…}}, one or a list */
    LM_FORM_KEYED,                   /* {"f": {…}}, a list */
    LM_FORM_NAMED,                   /* the name between marks, then arguments as JSON */
    LM_FORM_TAGGED,                  /* the name, then each argument between marks */
    LM_FORM_PYTHON,                  /* [f(a='x', b=1)] */
    LM_FORM_BRACED,                   /* call:f{a:<|"|>x<|"|>,b:1} */
    LM_FORM_HARMONY,                 /* messages with channels and recipients */
} lm_answer_form;

typedef enum lm_answer_ids { LM_IDS_CALL /* call_… */, LM_IDS_NINE /* 9 letters and digits */, LM_IDS_KIMI /* functions.NAME:I */,
                             LM_IDS_COUNTER } lm_answer_ids;

enum { LM_FAMILY_HAS = 3, LM_FAMILY_DROPS = 3 };

typedef struct lm_answer_mark_pair { const char *open, *close; } lm_answer_mark_pair;

typedef struct lm_answer_family {
    const char    *name;
    const char    *has[LM_FAMILY_HAS];       /* the template's text holds all of these, */
    const char    *hasnt;                    /* and not this; may be NULL */
    lm_answer_form form;
    lm_answer_mark_pair section;             /* around all calls; `close` NULL: until the output is not a call. May be NULL */
    lm_answer_mark_pair call;                /* around each; may be NULL */
    bool           bare;                     /* an answer that begins with "{" may be a call */
    const char    *name_end;                 /* NAMED, TAGGED: between the name and the arguments; NULL: white space or "<" */
    const char    *id_mark;                  /* NAMED: between the name and the call's id, which `name_end` then follows; NULL: no id */
    lm_answer_mark_pair argument;            /* TAGGED: before the name of one, and after its value */
    const char    *key_end;                  /* TAGGED: between name and value; white space in it is optional in the text */
    bool           typed;                    /* TAGGED: key_end is followed by string="true"> or string="false"> */
    bool           own_lines;                /* TAGGED: a value stands in lines of its own, when the model writes it */
    bool           tight;                    /* TAGGED: no line ends between the parts, when the model writes them */
    struct { const char *open, *between, *close; } list;     /* OBJECT, in a section: around the calls; all NULL: "[", ", ", "]" */
    const char    *name_key, *arguments_key; /* OBJECT: as the model writes them */
    lm_answer_ids  ids;
    const char    *drops[LM_FAMILY_DROPS];   /* marks around text, left out */
} lm_answer_family;

/* All of them, as they are tried; ends with one without a name. */
extern const lm_answer_family lm_answer_families[];

#endif
