// Buttons. Each stands for a command of the program, shows it, and says what came of it. The server runs it; nothing is decided here.
import { post, runAddress } from "./api.js";
import { copy, commandLine, menuButton, openDialog, say } from "./dialogs.js";
import { h, replace } from "./dom.js";
import { icon } from "./icons.js";
import { go } from "./router.js";

let readOnly = false;

/** Let the page show commands instead of buttons: the server refuses to change anything. */
export function setReadOnly(value) {
  readOnly = value;
}

/** Tell whether actions may be shown as buttons. */
export const mayAct = () => !readOnly;

/** Do an action: ask for its fields or for a confirmation first, if it has any. `target` is `{repository, run, words?}`. */
export function perform(action, target) {
  if (action.name === "review") return go({ name: "run", ...target, tab: "review" });
  if (action.fields.length || action.confirm) return openForm(action, target);
  return send(action, target, {});
}

/** Send an action and say what came of it; resolves to whether it was done. */
export async function send(action, target, fields) {
  const body = { name: action.name, task: action.task ?? null, fields };
  try {
    const answer = await post(runAddress(target.repository, target.run, "actions"), body);
    say(answer.ok ? answer.message || `${action.label}: done.` : answer.message || `${action.label} was refused.`, answer.ok ? "good" : "bad", answer.hint ?? "");
    return answer.ok;
  } catch (error) {
    say(error.message, "bad", error.hint ?? "");
    return false;
  }
}

/** Send an action while a button waits for it. */
async function sendFrom(button, action, target, fields) {
  button.disabled = true;
  button.setAttribute("aria-busy", "true");
  try {
    return await send(action, target, fields);
  } finally {
    button.disabled = false;
    button.removeAttribute("aria-busy");
  }
}

function buttonClass(action, primary) {
  if (primary) return action.danger ? "button danger" : "button primary";
  return action.danger ? "button quiet-danger" : "button";
}

/** Return the button of an action; it is primary, or names its task, if told so. */
export function actionButton(action, target, { primary = false, named = false } = {}) {
  const label = action.label + (named && action.task ? ` ${action.task}` : "") + (action.fields.length || action.confirm ? "…" : "");
  const button = h("button", { class: buttonClass(action, primary), type: "button", title: action.command }, label);
  const asks = action.fields.length || action.confirm || action.name === "review";
  button.addEventListener("click", () => (asks ? perform(action, target) : sendFrom(button, action, target, {})));
  return button;
}

/** Return the actions of a row: buttons, or their commands where nothing may be changed. */
export function actionRow(actions, target, { primary = true } = {}) {
  if (readOnly) return actions.slice(0, 1).map((action) => commandLine(action.command));
  return actions.map((action, index) => actionButton(action, target, { primary: primary && index === 0 && !action.danger }));
}

/** Return the menu of all actions, each with the command that it stands for. */
export function actionMenu(actions, target, label = "More actions") {
  const rows = (close) => actions().map((action) => menuRow(action, target, close));
  const face = [h("span", { class: "wide-only" }, "Actions"), icon("down")];
  return menuButton(label, face, (close) => (actions().length ? rows(close) : h("p", { class: "menu-note muted" }, "Nothing can be done about it now.")));
}

function menuRow(action, target, close) {
  const words = [h("span", {}, action.label + (action.fields.length || action.confirm ? "…" : "")), h("code", {}, action.command)];
  const row = h("button", { class: action.danger ? "menu-row danger-text" : "menu-row", type: "button" }, words);
  row.addEventListener("click", () => {
    close();
    if (readOnly) copy(action.command);
    else perform(action, target);
  });
  return row;
}

/** Ask for what an action needs, showing what it will do in the words of its command. */
function openForm(action, target) {
  const form = h("form", { class: "form", method: "dialog", novalidate: true });
  const inputs = action.fields.map((field, index) => fieldInput(field, index === 0));
  const submit = h("button", { class: buttonClass(action, true), type: "submit" }, action.label);
  const cancel = h("button", { class: "button", type: "button" }, "Cancel");
  replace(
    form,
    target.words && h("p", { class: "quote" }, target.words),
    action.confirm && h("p", {}, action.confirm),
    inputs.map((input) => input.node),
    h("div", { class: "form-command" }, h("span", { class: "muted" }, "This runs"), commandLine(action.command)),
    h("div", { class: "form-buttons" }, cancel, submit),
  );
  const dialog = openDialog(action.task ? `${action.label}: ${action.task}` : action.label, form);
  cancel.addEventListener("click", dialog.close);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (inputs.filter((input) => !input.check()).length) return;
    const fields = Object.fromEntries(inputs.map((input) => [input.name, input.value()]).filter(([, value]) => value !== ""));
    if (await sendFrom(submit, action, target, fields)) dialog.close();
  });
  return dialog;
}

/** Return a field with its label; `check` says whether it may be sent and puts focus where something is missing. */
function fieldInput(field, first) {
  const id = `field-${field.name}`;
  const input = INPUTS[field.kind]?.(field, id) ?? INPUTS.line(field, id);
  if (first) input.setAttribute("autofocus", "");
  const problem = h("p", { class: "problem", id: `${id}-problem`, hidden: true }, "This is needed.");
  const label = h("label", { for: id }, field.label, field.required ? null : h("span", { class: "muted" }, " (optional)"));
  const isFlag = field.kind === "flag";
  const node = h("div", { class: isFlag ? "field flag" : "field" }, isFlag ? [input, label] : [label, choices(field, input), input], problem);
  const value = () => (isFlag ? (input.checked ? "true" : "") : input.value.trim());
  const check = () => {
    const fine = !field.required || isFlag || value() !== "";
    problem.hidden = fine;
    input.setAttribute("aria-invalid", String(!fine));
    if (!fine) input.setAttribute("aria-describedby", problem.id);
    if (!fine) input.focus();
    return fine;
  };
  return { name: field.name, node, value, check };
}

/** Return the options of a text as buttons that write them into it. */
function choices(field, input) {
  if (field.kind === "choice" || !field.options.length) return null;
  const write = (option) => {
    input.value = option;
    input.focus();
  };
  return h("div", { class: "options" }, field.options.map((option) => optionButton(option, () => write(option))));
}

const INPUTS = {
  text: (field, id) => h("textarea", { id, rows: "4", required: field.required }),
  line: (field, id) => h("input", { id, type: "text", autocomplete: "off", required: field.required }),
  flag: (field, id) => h("input", { id, type: "checkbox" }),
  choice: (field, id) => {
    const none = field.required ? [] : [h("option", { value: "" }, "–")];
    return h("select", { id, required: field.required }, none, field.options.map((option) => h("option", { value: option }, option)));
  },
};

/** Return the form that answers an agent's question: its options as buttons, and room for other words. */
export function answerForm(action, target, place = "inbox") {
  const [{ name, options }] = action.fields;
  const id = `answer-${place}-${target.repository}-${target.run}-${action.task}`;
  const input = h("input", { id, type: "text", autocomplete: "off", placeholder: options.length ? "Or in your own words" : "Your answer" });
  const submit = h("button", { class: options.length ? "button" : "button primary", type: "submit" }, "Answer");
  const buttons = options.map((option) => optionButton(option, (button) => sendFrom(button, action, target, { [name]: option })));
  const form = h("form", { class: "answer" });
  replace(form, h("label", { class: "visually-hidden", for: id }, `Answer to ${action.task}`), h("div", { class: "answer-words" }, input, submit));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (input.value.trim() === "") return input.focus();
    if (await sendFrom(submit, action, target, { [name]: input.value.trim() })) input.value = "";
  });
  return h("div", { class: "answer-box" }, buttons.length ? h("div", { class: "options" }, buttons) : null, form);
}

function optionButton(option, choose) {
  const button = h("button", { class: "button option", type: "button" }, option);
  button.addEventListener("click", () => choose(button));
  return button;
}
