/* family.h - one descriptor per way in which models write calls. */
#ifndef LM_TEXT_ANSWER_FAMILY_H
#define LM_TEXT_ANSWER_FAMILY_H

#include "lamina/answer.h"

typedef enum lm_answer_form {
    LM_FORM_OBJECT,                  /* {"name": …, "arguments": {…}}, one or a list */
    LM_FORM_KEYED,                   /* {"f": {…}}, a list */
    LM_FORM_NAMED,                   /* the name between marks, then arguments as JSON */
    LM_FORM_TAGGED,                  /* the name, then each argument between marks */
    LM_FORM_NESTED,                  /* the name, then elements named after arguments, which may nest */
    LM_FORM_PYTHON,                  /* [f(a='x', b=1)] */
    LM_FORM_BRACED,                   /* call:f{a:<|"|>x<|"|>,b:1} */
    LM_FORM_HARMONY,                 /* messages with channels and recipients; with `call`: tagged
                                        calls in them */
} lm_answer_form;

typedef enum lm_answer_ids {
    LM_IDS_CALL /* call_… */,
    LM_IDS_NINE /* 9 letters and digits */,
    LM_IDS_KIMI /* functions.NAME:I */,
    LM_IDS_COUNTER
} lm_answer_ids;

typedef enum lm_answer_typed {
    LM_TYPED_NOT,
    LM_TYPED_AS_TEXT,                /* string="true"> or string="false"> */
    LM_TYPED_BY_NAME,                /* type="number"<|sep|> */
} lm_answer_typed;

enum { LM_FAMILY_HAS = 3, LM_FAMILY_DROPS = 3, LM_FAMILY_ALSO = 2 };

typedef struct lm_answer_mark_pair { const char *open, *close; } lm_answer_mark_pair;

typedef struct lm_answer_family {
    const char    *name;
    const char    *has[LM_FAMILY_HAS];       /* the template contains all of these, */
    const char    *lacks;                    /* and not this one; may be NULL */
    bool           shared;                   /* templates of other formats contain them too */
    bool           sure;                     /* they are enough, whatever the template renders for a call */
    lm_answer_form form;
    lm_answer_mark_pair section;             /* around all calls; `close` NULL: until the output is not a
                                                call. `open` may be NULL */
    lm_answer_mark_pair also[LM_FAMILY_ALSO];        /* other marks of sections */
    lm_answer_mark_pair call;                /* around each call; may be NULL */
    const char    *between;                  /* between two calls; may be NULL */
    bool           bare;                     /* an answer that begins with "{" or "[" may be a call */
    bool           array;                    /* OBJECT, bare: the model writes a list */
    bool           apart;                    /* OBJECT: the calls of a section are not a list */
    bool           streams;                  /* its marks leave no doubt: arguments are emitted as they arrive
                                                even if no grammar guarantees the rest */
    bool           prompted;                 /* the prompt ends with call.open: an answer begins after it */
    const char    *name_end;                 /* NAMED, TAGGED: between the name and the arguments; NULL: white
                                                space or "<" */
    const char    *head_end;                 /* TAGGED: ends further attributes after name_end; NULL: none */
    const char    *id_first;                 /* NAMED: between the call's id and the name; NULL: no id */
    const char    *id_mark;                  /* NAMED: between the name and the call's id, which `name_end`
                                                follows; NULL: no id */
    lm_answer_mark_pair argument;            /* TAGGED: before the name of an argument, and after its value */
    const char    *key_end;                  /* TAGGED: between name and value; white space may be between two
                                                tags of it */
    lm_answer_typed typed;                   /* TAGGED: what follows key_end */
    const char    *tag;                      /* NESTED: in front of every tag */
    const char    *quote;                    /* BRACED: around strings; NULL: Gemma 4's */
    bool           cdata;                    /* TAGGED: a value may be wrapped in <![CDATA[ and ]]> */
    bool           own_lines;                /* TAGGED: the model writes a value on separate lines */
    bool           lines;                    /* TAGGED: it may write a value on separate lines */
    const char    *name_key, *arguments_key; /* OBJECT: as the model writes them; TAGGED: if it may
                                                write JSON instead */
    lm_answer_ids  ids;
    lm_answer_mark_pair reasoning;           /* around reasoning, if the template makes them of parts; NULL:
                                                those that the template contains */
    const char    *drops[LM_FAMILY_DROPS];   /* marks around text that are dropped */
} lm_answer_family;

/* All families in the order in which they are tried; the last one has no name. */
extern const lm_answer_family lm_answer_families[];

#endif
