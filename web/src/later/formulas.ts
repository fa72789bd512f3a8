// What formulas need.
export { default as temml } from "temml";
