import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { App } from "./app";
import { followTheAddress } from "./choice";
import { listenForKeys } from "./keys";
import { watchSources } from "./sources";
import { wearTheme } from "./theme";

wearTheme();
followTheAddress();
watchSources();
listenForKeys();
const page = document.getElementById("page")!;
page.textContent = "";
render(<App />, page);
