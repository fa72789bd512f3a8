// The libraries of formulas.
export { default as temml } from "temml";
